//! Helpers for the tests of this crate.

use std::future::Future;

use contactd_core::store::{ImportPlan, ImportSummary, Importing, LocalRead};
use contactd_core::{Detail, Profile, Record, Timestamp};

use crate::SqliteStore;

/// Runs a future of this engine. It is ready at once: the engine waits only inside SQLite calls.
pub(crate) fn now<T>(ready: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(ready)
}

/// Importing the details of one profile.
pub(crate) fn put(store: &SqliteStore, profile: &Profile, details: Vec<Detail>) {
    put_all(store, vec![Record { profile: profile.clone(), details }]);
}

/// Importing records given in any order.
pub(crate) fn put_all(store: &SqliteStore, mut records: Vec<Record>) {
    records.sort_by_key(|record| store.sort_key(&record.profile));
    let plan = ImportPlan::of(records.len() as u64, Timestamp::from_seconds(0));
    let mut import = now(store.begin_import(&plan)).expect("begins");
    now(import.put(records)).expect("puts");
    now(import.finish()).expect("finishes");
    now(import.commit(&ImportSummary::default(), None)).expect("commits");
    store.renew_all();
}
