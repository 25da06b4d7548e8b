//! Migrations: numbered, forward only, never edited once landed.

use std::path::Path;

use contactd_core::store::{StoreError, place};
use rusqlite::Connection;
use rusqlite::functions::FunctionFlags;

use crate::connection;

pub(crate) const CONTACTD: &[&str] = &[
    include_str!("../migrations/contactd/001_tokens_suppressions_usage.sql"),
    include_str!("../migrations/contactd/002_changes.sql"),
    include_str!("../migrations/contactd/003_outbox.sql"),
    include_str!("../migrations/contactd/004_token_families.sql"),
    include_str!("../migrations/contactd/005_copy.sql"),
    include_str!("../migrations/contactd/006_accounts.sql"),
];

pub(crate) const DETAILS: &[&str] = &[
    include_str!("../migrations/details/001_details.sql"),
    include_str!("../migrations/details/002_details_by_number.sql"),
    include_str!("../migrations/details/003_withdrawn_undone.sql"),
    include_str!("../migrations/details/004_retention.sql"),
    include_str!("../migrations/details/005_actor.sql"),
    include_str!("../migrations/details/006_outbox.sql"),
    include_str!("../migrations/details/007_undo.sql"),
    include_str!("../migrations/details/008_copy.sql"),
];

pub(crate) const AUDIT: &[&str] = &[
    include_str!("../migrations/audit/001_events.sql"),
    include_str!("../migrations/audit/002_by_node.sql"),
    include_str!("../migrations/audit/003_values_admin.sql"),
    include_str!("../migrations/audit/004_by_time.sql"),
];

/// Opens a database for writing and migrates it to the newest schema. Refuses a schema that is newer
/// than that.
pub(crate) fn open(file: &Path, migrations: &[&str]) -> Result<Connection, StoreError> {
    let mut connection = connection::writer(file)?;
    let known = u32::try_from(migrations.len()).unwrap_or(u32::MAX);
    if version(&connection)? == known {
        return Ok(connection);
    }
    teach_first_id(&connection).map_err(connection::error)?;
    let transaction = connection::write(&mut connection)?;
    // Another process may have migrated it while this one waited.
    let found = version(&transaction)?;
    if found > known {
        return Err(StoreError::SchemaTooNew { found, known });
    }
    for migration in migrations.iter().skip(found as usize) {
        transaction.execute_batch(migration).map_err(connection::error)?;
    }
    transaction.pragma_update(None, "user_version", known).map_err(connection::error)?;
    transaction.commit().map_err(connection::error)?;
    Ok(connection)
}

/// Defines the SQL function `first_id(profile, kind)`, with which migrations compute the ids of details.
fn teach_first_id(connection: &Connection) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_DETERMINISTIC | FunctionFlags::SQLITE_UTF8;
    connection.create_scalar_function("first_id", 2, flags, |arguments| {
        Ok(place::first_id_of_key(arguments.get_raw(0).as_str()?, arguments.get(1)?))
    })
}

/// Whether a database is there and has tables.
pub(crate) fn is_made(file: &Path) -> Result<bool, StoreError> {
    Ok(file.exists() && version(&connection::reader(file)?)? > 0)
}

fn version(connection: &Connection) -> Result<u32, StoreError> {
    connection.query_row("PRAGMA user_version", (), |row| row.get(0)).map_err(connection::error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile_rows::{ProfileRows, SourceNames};
    use contactd_core::store::{AuditIndex, Tokens};
    use contactd_core::{Lifetime, Profile};
    use sha2::{Digest, Sha256};

    fn fingerprint(migration: &str) -> String {
        contactd_core::hex::encode(&Sha256::digest(migration)[..6])
    }

    #[test]
    fn landed_migrations_are_never_edited() {
        let contactd: Vec<_> = CONTACTD.iter().copied().map(fingerprint).collect();
        let audit: Vec<_> = AUDIT.iter().copied().map(fingerprint).collect();
        let details: Vec<_> = DETAILS.iter().copied().map(fingerprint).collect();
        assert_eq!(audit, ["e00dc168e97d", "1ea255ff3535", "72086273b216", "d2ebacb280ba"]);
        assert_eq!(
            contactd,
            ["3fdff0a8a751", "c0fa3a96eb19", "b4827a0210ed", "a22a9473ba4b", "e8eb99609b7b", "d605cd66ac87"]
        );
        assert_eq!(
            details,
            [
                "09ea08fcbafd",
                "746a2ed3f42f",
                "13592c7b3026",
                "1ec02b4d4b95",
                "0a862cfe8873",
                "b4827a0210ed",
                "b0cf981d9b87",
                "59ddb6a6b1af"
            ]
        );
    }

    #[test]
    fn details_of_the_first_schema_are_found_in_the_newest() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("details.db");
        let first = open(&file, &DETAILS[..1]).expect("opens");
        first
            .execute_batch(
                "INSERT INTO sources VALUES (1, 'crm'), (2, 'hr');
                 INSERT INTO details VALUES
                     ('linkedin.com/in/ada-quell', 0, 0, 50, 7, '+14155550101', 1, NULL, NULL, 1),
                     ('linkedin.com/in/ada-quell', 0, 0, 90, 7, '+14155550102', 2, 99, 'consent', 1),
                     ('linkedin.com/in/ada-quell', 0, 1, 95, 7, '+14155550103', 1, NULL, NULL, 2),
                     ('linkedin.com/in/ada-quell', 1, 0, 50, 7, 'ada@example.com', 1, NULL, NULL, 1),
                     ('linkedin.com/in/bo-quell', 1, 0, 50, 7, 'bo@example.com', 1, NULL, NULL, 1);",
            )
            .expect("inserts");
        drop(first);
        let newest = open(&file, DETAILS).expect("migrates");
        let held = |slug: &str| {
            let profile = Profile::from_key(&format!("linkedin.com/in/{slug}"));
            let rows = ProfileRows::read(&newest, &mut SourceNames::default(), &profile).expect("reads");
            rows.details.into_iter().map(|stored| stored.detail.value.expose().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(held("ada-quell"), ["+14155550102", "+14155550101", "+14155550103", "ada@example.com"]);
        assert_eq!(held("bo-quell"), ["bo@example.com"]);
    }

    #[test]
    fn tokens_of_the_first_schema_are_a_family_each_and_keep_their_lifetime() {
        let dir = tempfile::tempdir().expect("a directory");
        let first = open(&dir.path().join("contactd.db"), &CONTACTD[..1]).expect("opens");
        first
            .execute_batch(
                "INSERT INTO tokens (id, hash, name, phone, email, created_at, expires_at) VALUES
                     ('tok_1', zeroblob(32), 'crm', 1, 1, 1000, 3000), ('tok_2', x'01', 'ats', 1, 0, 1000, NULL);
                 UPDATE tokens SET hash = randomblob(32);",
            )
            .expect("inserts");
        drop(first);
        // What is read of another data directory is read from any schema.
        let read = crate::SqliteStore::read_withdrawals(dir.path()).expect("reads");
        let ends: Vec<_> = read.tokens.iter().map(|(_, token)| token.expires_at.is_some()).collect();
        assert_eq!(ends, [true, false]);
        let store = crate::SqliteStore::open(dir.path()).expect("migrates");
        let tokens = crate::testing::now(store.list_tokens()).expect("lists");
        let told: Vec<_> = tokens
            .iter()
            .map(|(_, token)| (token.family.as_str(), token.rotated_from.as_deref(), token.lifetime))
            .collect();
        let two_seconds = Lifetime::For(std::time::Duration::from_secs(2));
        assert_eq!(told, [("tok_1", None, two_seconds), ("tok_2", None, Lifetime::Forever)]);
    }

    #[test]
    fn an_index_of_the_first_schema_belongs_to_its_only_node() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("audit-index.db");
        for (events, node) in
            [("INSERT INTO events VALUES (7, 5, 1, 'r', 2, 0, 0, NULL, NULL, NULL);", "n1"), ("", "")]
        {
            let _ = std::fs::remove_file(&file);
            let first = open(&file, &AUDIT[..1]).expect("opens");
            first
                .execute_batch(&format!(
                    "INSERT INTO names VALUES (1, 'n1'), (2, 'tok_1'); {events}
                     INSERT INTO usage VALUES (2, 0, 1, 0, 0);
                     UPDATE position SET segment = 1, offset = 90, seq = 7;"
                ))
                .expect("inserts");
            drop(first);
            let newest = open(&file, AUDIT).expect("migrates");
            let text = |sql: &str| newest.query_row(sql, (), |row| row.get::<_, String>(0)).expect("one row");
            let of = |table: &str| format!("SELECT name FROM {table} JOIN names ON names.id = {table}.node");
            assert_eq!([text(&of("usage")), text(&of("positions"))], [node, node]);
            assert_eq!(text("SELECT seq || '/' || offset FROM positions"), "7/90");
            // The node's own name may be known already, without a line.
            drop(newest);
            let store = crate::SqliteStore::open(dir.path()).expect("opens");
            let position = crate::testing::now(store.audit_position("n1")).expect("reads");
            assert_eq!((position.seq, position.offset), (7, 90));
            crate::testing::now(store.forget_audit("n1", 7)).expect("forgets");
            assert_eq!(crate::testing::now(store.audit_position("n1")).expect("reads"), position);
            assert_eq!(crate::testing::now(store.audit_usage(i64::MIN)).expect("reads").len(), 1);
            crate::testing::now(store.reset_audit_index("n1", 0)).expect("resets");
            assert_eq!(crate::testing::now(store.audit_usage(i64::MIN)).expect("reads"), []);
        }
    }

    #[test]
    fn a_newer_schema_is_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("contactd.db");
        let newer: Vec<&str> = CONTACTD.iter().copied().chain(["CREATE TABLE later (id INTEGER)"]).collect();
        drop(open(&file, &newer).expect("opens"));
        let refused = open(&file, CONTACTD).expect_err("is newer");
        assert!(matches!(refused, StoreError::SchemaTooNew { found: 7, known: 6 }), "{refused}");
    }
}
