//! In force: every lookup that starts after a change has returned sees the change.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

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
pub type Announcing<'a> = Pin<Box<dyn Future<Output = Result<(), NotConfirmed>> + Send + 'a>>;

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
}

/// The result of a change. It is committed; [`confirmed`](Self::confirmed) says whether it is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a change that is not confirmed has to be reported"]
pub struct Changed<T> {
    /// What was done.
    pub done: T,
    /// Whether it is in force.
    pub confirmed: Result<(), NotConfirmed>,
}

impl<T> Changed<T> {
    /// Announces a committed change.
    pub(crate) async fn announce(done: T, in_force: &dyn InForce, affected: Affected) -> Self {
        Self { done, confirmed: in_force.announce(affected).await }
    }

    /// A result that does not affect lookups.
    pub(crate) const fn nothing(done: T) -> Self {
        Self { done, confirmed: Ok(()) }
    }
}

/// A committed change that has not been announced yet. For results that exist only once, such as a new token: whoever asked for
/// it gets them even if the announcement takes long or the process ends meanwhile.
#[must_use = "a change has to be announced"]
pub struct Committed<T> {
    /// What was done.
    pub done: T,
    in_force: Arc<dyn InForce>,
    affected: Affected,
}

impl<T> Committed<T> {
    pub(crate) fn new(done: T, in_force: &Arc<dyn InForce>, affected: Affected) -> Self {
        Self { done, in_force: Arc::clone(in_force), affected }
    }

    /// Announces the change.
    pub async fn announce(self) -> Changed<T> {
        Changed::announce(self.done, &*self.in_force, self.affected).await
    }
}
