//! In force: every lookup that starts after a change has returned sees the change.

use std::sync::Arc;

use futures_core::future::BoxFuture;

use crate::on_record::required;
use crate::{NotRecorded, OnRecord};

/// Makes committed changes take effect in the process that serves lookups.
///
/// A command does this through `control.sock`; a server does it directly ([`Live`](crate::Live)).
pub trait InForce: Send + Sync {
    /// Announces that a change was committed. Returns when every lookup that starts afterwards sees it.
    fn announce(&self, affected: Affected) -> Announcing<'_>;
}

/// What a change affects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Affected {
    /// Tokens or suppressions.
    Access,
    /// Details only.
    Details,
}

/// An announcement in progress.
pub type Announcing<'a> = BoxFuture<'a, Result<Vec<NodeNote>, NotConfirmed>>;

/// What there is to say about a node of a cluster after a change, although the change is in force.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeNote {
    /// It did not confirm the change. Its lease has ended since, so it answers no lookup before it has the change.
    #[error(
        "node {0} did not confirm this. Its lease has ended, so it answers no lookup before it has the change"
    )]
    Silent(String),
    /// It answers lookups, and has not applied a change of details yet.
    #[error("node {0} has not applied this change of details yet. It will do so by itself")]
    Behind(String),
}

/// A change is committed, but not known to be in force.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotConfirmed {
    /// The server answered that it could not apply the change.
    #[error(
        "committed, not confirmed: the running server could not read the change. Look at its log; restarting it is safe"
    )]
    Failed,
    /// The server did not answer.
    #[error(
        "committed, not confirmed: the running server did not answer within 5 seconds on control.sock ({0}). \
         It applies changes by itself within a second unless it hangs; if it does, restart it"
    )]
    Silent(String),
    /// The database of a cluster could not be asked whether its nodes have the change.
    #[error(
        "committed, not confirmed: the nodes could not be asked ({0}). \
         They apply changes by themselves within a second, or stop answering when their lease ends"
    )]
    NotAsked(String),
}

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
