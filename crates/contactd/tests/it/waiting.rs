//! Commands while somebody else writes to the store.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::Duration;

use contactd_core::store::{ImportPlan, ImportSummary, Store};
use contactd_core::{ContactValue, Detail, Kind, Networks, Record, Timestamp};
use contactd_store_postgres::{PostgresStore, Settings};
use contactd_store_sqlite::SqliteStore;
use tokio::runtime::{Builder, Runtime};

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

/// Another process, with the store of a site.
pub(crate) struct Elsewhere {
    runtime: Runtime,
    store: Arc<dyn Store>,
}

impl Elsewhere {
    pub(crate) fn on(site: &Site) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let store: Arc<dyn Store> = match site.database() {
            None => Arc::new(SqliteStore::open(&site.data()).expect("opens")),
            Some(url) => {
                let settings = Settings {
                    url: url.parse().expect("a URL"),
                    patience: Duration::from_secs(10),
                    answer: Duration::from_secs(5),
                    makes_tables: false,
                    on_wait: Box::new(|| {}),
                };
                Arc::new(runtime.block_on(PostgresStore::open(settings)).expect("opens"))
            }
        };
        Self { runtime, store }
    }

    /// Does something while an import is in progress, which brings these records in the end.
    pub(crate) fn while_importing<T>(&self, records: Vec<Record>, work: impl FnOnce() -> T) -> T {
        let plan = ImportPlan::of(1, Timestamp::from_seconds(1_780_000_000));
        let mut import = self.runtime.block_on(self.store.begin_import(&plan)).expect("begins");
        let brings_something = !records.is_empty();
        if brings_something {
            // It has checked who has opted out.
            self.runtime.block_on(import.put(records)).expect("puts");
            self.runtime.block_on(import.finish()).expect("finishes");
        }
        let done = work();
        if brings_something {
            self.runtime.block_on(import.commit(&ImportSummary::default(), None)).expect("commits");
        }
        done
    }
}

#[test]
fn opt_outs_and_revocations_do_not_wait_for_an_import_and_the_rest_waits_and_finishes() {
    let (service, token) = Service::with_people();
    let site = &service.site;
    let other = site.json(&["token", "create", "other"]);
    let (other, other_id) = (other["token"].as_str().expect("a token"), other["id"].as_str().expect("an id"));
    let profile = Networks::built_in().canonicalize(ADA).expect("a profile");
    let number = ContactValue::phone("+14155550188", None).expect("a number");
    let record = Record { profile, details: vec![Detail::new(Kind::Phone, number, "elsewhere")] };
    let running = Elsewhere::on(site).while_importing(vec![record], || {
        site.ok(&["suppress", MIRA]);
        assert_eq!(service.look_up(PHONE, &token, MIRA).status, 404);
        site.ok(&["token", "revoke", other_id]);
        assert_eq!(service.look_up(PHONE, other, ADA).status, 401);

        let mut erasing = Running::start(&service, &["erase", ADA, "--values"]);
        let words = erasing.next_words();
        assert!(words.starts_with("suppressed, waiting for the import"), "{words}");
        assert_eq!(service.look_up(PHONE, &token, ADA).status, 404, "in force while it waits");
        let mut removing = Running::start(&service, &["remove", EVE]);
        let words = removing.next_words();
        assert!(words.starts_with("waiting"), "{words}");
        assert_eq!(service.look_up(EMAIL, &token, EVE).status, 200, "not removed yet");
        [erasing, removing]
    });
    for mut running in running {
        assert!(running.child.wait().expect("ends").success(), "{}", running.next_words());
    }
    assert_eq!(service.look_up(EMAIL, &token, EVE).status, 404);
    assert!(!site.ok(&["export"]).contains("ada-quell"), "also what came in between is erased");
    site.run(&["put", EVE, "--phone", "+14155550188"]).mentions(1, "opted out");
}
