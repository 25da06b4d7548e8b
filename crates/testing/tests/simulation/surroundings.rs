//! What the services need besides a store: a journal that fails or is late, and a record of actions.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use contactd_core::store::Outbox;
use contactd_core::{
    AdminEntry, AdminOutcome, Audit, AuditEvent, AuditHealth, AuditOutcome, Batch, NotRecorded, OnRecord,
    Recording, RefusedKind, Ticket,
};

use crate::faulty::{Faulty, Plan};

/// The journal of lookups. Lines wait until they are written or lost.
#[derive(Default)]
pub(crate) struct Lines(Mutex<State>);

#[derive(Default)]
struct State {
    waiting: Vec<(Arc<Batch>, String, AuditOutcome)>,
    /// By request id.
    written: HashMap<String, AuditOutcome>,
}

impl Lines {
    /// Decides what happens to all lines that wait.
    pub(crate) fn settle(&self, is_written: bool) {
        let mut state = self.0.lock().expect("a lock");
        for (batch, id, outcome) in std::mem::take(&mut state.waiting) {
            if is_written {
                // In this order: whoever is told so finds the line.
                state.written.insert(id, outcome);
            }
            batch.settle(is_written);
        }
    }

    /// The outcome that is written for a request.
    pub(crate) fn written(&self, id: &str) -> Option<AuditOutcome> {
        self.0.lock().expect("a lock").written.get(id).copied()
    }
}

impl Audit for Lines {
    fn append(&self, event: &AuditEvent<'_>) -> Ticket {
        assert_eq!(event.value.is_some(), event.outcome == AuditOutcome::Hit, "a digest for every hit only");
        let batch = Batch::begin();
        let ticket = batch.ticket(0);
        self.0.lock().expect("a lock").waiting.push((batch, event.request_id.to_owned(), event.outcome));
        ticket
    }

    fn take_back(&self, _: &Ticket) {}

    fn count_refused(&self, _: RefusedKind) {}

    fn flush(&self) {}

    fn health(&self) -> AuditHealth {
        AuditHealth { is_up: true, lines: 0, lost: 0 }
    }
}

/// The journal of actions.
pub(crate) struct Actions {
    pub(crate) store: Arc<Faulty>,
    pub(crate) plan: Arc<Plan>,
    pub(crate) recorded: Mutex<Vec<AdminEntry>>,
}

impl Actions {
    fn add(&self, entries: &[AdminEntry]) {
        let mut recorded = self.recorded.lock().expect("a lock");
        for entry in entries {
            if !recorded.iter().any(|known| known.entry == entry.entry) {
                recorded.push(entry.clone());
            }
        }
    }

    /// How often an action is on record as done.
    pub(crate) fn count(&self, operation: &str) -> usize {
        let is_it = |entry: &&AdminEntry| entry.operation == operation && entry.outcome == AdminOutcome::Done;
        self.recorded.lock().expect("a lock").iter().filter(is_it).count()
    }

    async fn may_fail(&self) -> Result<(), NotRecorded> {
        self.plan.pause().await;
        if self.plan.one_in(10) { Err(NotRecorded::Unavailable("planned".to_owned())) } else { Ok(()) }
    }
}

impl OnRecord for Actions {
    fn record<'a>(&'a self, entry: &'a AdminEntry) -> Recording<'a> {
        Box::pin(async move {
            self.may_fail().await?;
            self.add(std::slice::from_ref(entry));
            Ok(())
        })
    }

    fn collect<'a>(&'a self, _: &'a [&'a str]) -> Recording<'a> {
        Box::pin(async move {
            self.may_fail().await?;
            let not_now =
                |error: contactd_core::store::StoreError| NotRecorded::Unavailable(error.to_string());
            let entries = self.store.list_entries().await.map_err(not_now)?;
            self.add(&entries);
            let ids: Vec<String> = entries.into_iter().map(|entry| entry.entry).collect();
            self.store.remove_entries(&ids).await.map_err(not_now)
        })
    }
}
