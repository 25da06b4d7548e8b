//! A change, whether it is in force, and whether it is on record.

use std::sync::Arc;

use contactd_core::{Affected, InForce, NodeNote, NotConfirmed, NotRecorded, OnRecord};

use crate::required;

/// The result of a change. It is committed; [`confirmed`](Self::confirmed) says whether it is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a change that is not confirmed has to be reported"]
pub struct Changed<T> {
    /// What was done.
    pub done: T,
    /// Whether it is in force.
    pub confirmed: Result<(), NotConfirmed>,
    /// What there is to say about nodes of a cluster.
    pub notes: Vec<NodeNote>,
    /// Whether it is on record. If not, its entry is kept in the store until it is.
    pub recorded: Result<(), NotRecorded>,
}

/// Through which a change takes effect and gets on record.
#[derive(Clone)]
pub(crate) struct Announcer {
    pub(crate) in_force: Arc<dyn InForce>,
    pub(crate) on_record: Arc<dyn OnRecord>,
}

impl Announcer {
    /// Announces a committed change. It takes effect first; that never waits for the journal.
    pub(crate) async fn announce<T>(&self, done: T, affected: Affected) -> Changed<T> {
        let (confirmed, notes) = match self.in_force.announce(affected).await {
            Ok(notes) => (Ok(()), notes),
            Err(error) => (Err(error), Vec::new()),
        };
        Changed { done, confirmed, notes, recorded: self.on_record.collect().await }
    }
}

impl<T> Changed<T> {
    /// Whether what was found about people may be shown: the change is on record, or the operator has switched the journal off.
    pub fn may_show(&self) -> bool {
        required(self.recorded.clone()).is_ok()
    }

    /// A result that changed nothing.
    pub(crate) const fn nothing(done: T) -> Self {
        Self { done, confirmed: Ok(()), notes: Vec::new(), recorded: Ok(()) }
    }
}

/// A committed change that has not been announced yet. For results that exist only once, such as a new token: whoever asked for
/// it gets them even if the announcement takes long or the process ends meanwhile.
#[must_use = "a change has to be announced"]
pub struct Committed<T> {
    /// What was done.
    pub done: T,
    announcer: Announcer,
    affected: Affected,
}

impl<T> Committed<T> {
    pub(crate) const fn new(done: T, announcer: Announcer, affected: Affected) -> Self {
        Self { done, announcer, affected }
    }

    /// Announces the change.
    pub async fn announce(self) -> Changed<T> {
        self.announcer.announce(self.done, self.affected).await
    }
}
