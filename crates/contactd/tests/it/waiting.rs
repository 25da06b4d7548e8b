//! Commands while somebody else writes to the store.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::Duration;

use contactd_core::Timestamp;
use contactd_core::store::{ImportPlan, Store};
use contactd_store_postgres::{PostgresStore, Settings};
use contactd_store_sqlite::SqliteStore;

use crate::fixture::{ADA, EVE, MIRA};
use crate::service::{EMAIL, PHONE, Service, Site};

/// A command in the background, and the first line of what it says.
struct Running {
    child: Child,
    words: BufReader<std::process::ChildStderr>,
}

impl Running {
    fn start(service: &Service, args: &[&str]) -> Self {
        let mut command = service.site.command();
        command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("starts");
        let words = BufReader::new(child.stderr.take().expect("a pipe"));
        Self { child, words }
    }

    fn next_words(&mut self) -> String {
        let mut line = String::new();
        self.words.read_line(&mut line).expect("reads");
        line.trim_end().to_owned()
    }
}

/// The store of a site, as another process opens it.
pub(crate) async fn store(site: &Site) -> Arc<dyn Store> {
    let Some(url) = site.database() else {
        return Arc::new(SqliteStore::open(&site.data()).expect("opens"));
    };
    let settings = Settings {
        url: url.parse().expect("a URL"),
        patience: Duration::from_secs(10),
        makes_tables: false,
        on_wait: Box::new(|| {}),
    };
    Arc::new(PostgresStore::open(settings).await.expect("opens"))
}

#[test]
fn opt_outs_and_revocations_do_not_wait_for_an_import_and_the_rest_waits_and_finishes() {
    let (service, token) = Service::with_people();
    let site = &service.site;
    let other = site.run(&["token", "create", "other", "--json"]).json();
    let (other, other_id) = (other["token"].as_str().expect("a token"), other["id"].as_str().expect("an id"));
    // An import in progress, which is not done before it is dropped.
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let store = runtime.block_on(store(site));
    let import = runtime.block_on(store.begin_import(&ImportPlan::of(1, Timestamp::from_seconds(0))));
    let import = import.expect("begins");

    site.ok(&["suppress", MIRA]);
    assert_eq!(service.look_up(PHONE, &token, MIRA).status, 404);
    site.ok(&["token", "revoke", other_id]);
    assert_eq!(service.look_up(PHONE, other, ADA).status, 401);

    let mut erasing = Running::start(&service, &["erase", ADA]);
    let words = erasing.next_words();
    assert!(words.starts_with("suppressed, waiting for the import"), "{words}");
    assert_eq!(service.look_up(PHONE, &token, ADA).status, 404, "in force while it waits");
    let mut removing = Running::start(&service, &["remove", EVE]);
    let words = removing.next_words();
    assert!(words.starts_with("waiting"), "{words}");
    assert_eq!(service.look_up(EMAIL, &token, EVE).status, 200, "not removed yet");

    drop(import);
    for mut running in [erasing, removing] {
        assert!(running.child.wait().expect("ends").success(), "{}", running.next_words());
    }
    assert_eq!(service.look_up(EMAIL, &token, EVE).status, 404);
    assert!(!site.ok(&["export"]).contains("ada-quell"));
}
