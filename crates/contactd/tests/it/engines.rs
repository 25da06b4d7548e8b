//! Which store the tests run on. By default the files of the data directory; with `CONTACTD_TEST_STORE=postgres` every
//! [`Site`](crate::service::Site) has a database of its own in a real PostgreSQL, and all of its commands and servers use it.

use contactd_testing::TestServer;

/// Tests that are about the files of the embedded store, or about something that has nothing to do with a store. They run on the
/// embedded store whatever is asked for. Each is the name of a module or the beginning of the name of a test.
const EMBEDDED_ONLY: &[(&str, &str)] = &[
    ("backup::", "a backup is a copy of a data directory; a database is backed up with its own tools"),
    ("cluster::", "it makes its own databases"),
    ("data_dirs::", "data directories of released versions hold an embedded store"),
    ("descriptors::", "it counts the open files of the embedded store"),
    ("faults::", "it damages the files of the embedded store"),
    ("leftovers::", "what killed backups and restores leave is in data directories"),
    ("migrate::", "it moves an embedded store"),
    ("moved::", "it moves a data directory that is all there is"),
    ("no_store::", "whether a data directory is made depends on the store"),
    ("quotas::", "it makes its own databases"),
    ("shipping::", "it makes its own databases"),
    ("wal::", "it measures the write-ahead log of the embedded store"),
    ("audit::a_backup_holds", RESTORES),
    ("audit::a_restore_does", RESTORES),
    ("erase::suppressed_people_do_not_come_back", RESTORES),
    ("proof::a_restore_is_on_record", RESTORES),
    ("token_changes::a_restore_does", RESTORES),
    ("users::a_migration_moves", "it moves an embedded store"),
    ("audit::a_server_without_an_index", INDEX),
    ("proof::a_changed_index", INDEX),
    ("questions::without_an_index", INDEX),
    ("console_audit::a_journal_that_somebody_changed", INDEX),
    ("limits::a_server_that_is_killed_while", INDEX),
    ("console_overview::in_a_cluster", "it makes its own databases"),
    ("console_overview::the_system_page", "without a cluster there are no nodes"),
    ("audit::keys_may_come_from", KEYS),
    ("suppress::without_the_keys", KEYS),
    ("suppress::nothing_is_confirmed", "in a cluster, a change is confirmed through the database"),
    ("commands::metrics_count", "it names the files of the embedded store"),
    ("token_changes::an_update_says", "what a node counts is in the database a second later"),
];

const RESTORES: &str = "it restores a data directory that is all there is";
const INDEX: &str = "it changes the file that holds the index of the embedded store";
const KEYS: &str = "the messages about missing keys are others in a cluster; `cluster::` has them";

/// The URL of a new database for the current test; `None` if it runs on the embedded store.
#[expect(clippy::print_stderr, reason = "so that the output of the tests says it")]
#[expect(clippy::disallowed_methods, reason = "how the tests are run is not configuration of the program")]
pub(crate) fn new_database() -> Option<String> {
    match std::env::var("CONTACTD_TEST_STORE").as_deref() {
        Err(_) | Ok("" | "sqlite") => return None,
        Ok("postgres") => {}
        Ok(other) => panic!("CONTACTD_TEST_STORE={other} is not known; use sqlite or postgres"),
    }
    let thread = std::thread::current();
    let test = thread.name().unwrap_or_default();
    match EMBEDDED_ONLY.iter().find(|(name, _)| test.starts_with(name)) {
        Some((_, reason)) => {
            eprintln!("{test} runs on the embedded store: {reason}");
            None
        }
        None => Some(TestServer::shared().database()),
    }
}
