//! A change, whether it is in force, and whether it is on record.

use std::sync::Arc;

use contactd_core::{Affected, NodeNote, NotConfirmed, NotRecorded};

use crate::{Parts, required};

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

impl<T> Changed<T> {
    /// Whether what was found about people may be shown: the change is on record, or the operator has switched the journal off.
    pub fn may_show(&self) -> bool {
        required(self.recorded.clone()).is_ok()
    }

    /// The same with something else that was done.
    pub fn map<U>(self, done: impl FnOnce(T) -> U) -> Changed<U> {
        let Self { done: before, confirmed, notes, recorded } = self;
        Changed { done: done(before), confirmed, notes, recorded }
    }

    /// A result that changed nothing.
    pub(crate) const fn nothing(done: T) -> Self {
        Self { done, confirmed: Ok(()), notes: Vec::new(), recorded: Ok(()) }
    }
}

/// A committed change of access that has not been announced yet. For results that exist only once, such as a new token: whoever asked for
/// it gets them even if the announcement takes long or the process ends meanwhile.
#[must_use = "a change has to be announced"]
pub struct Committed<T> {
    /// What was done.
    pub done: T,
    parts: Arc<Parts>,
    /// The entry that was stored with it.
    entry: String,
}

impl<T> Committed<T> {
    pub(crate) const fn new(done: T, parts: Arc<Parts>, entry: String) -> Self {
        Self { done, parts, entry }
    }

    /// Announces the change.
    pub async fn announce(self) -> Changed<T> {
        self.parts.announce(self.done, Affected::Access, &[&self.entry]).await
    }
}
