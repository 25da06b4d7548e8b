//! In force: every lookup that starts after a change has returned sees the change.

use std::future::Future;
use std::pin::Pin;

/// Makes committed changes take effect in the process that serves lookups.
///
/// A command does this through `control.sock`; a server does it directly ([`Live`](crate::Live)).
pub trait InForce: Send + Sync {
    /// Announces that a change was committed. Returns when every lookup that starts afterwards sees it.
    fn announce(&self) -> Announcing<'_>;
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
    pub(crate) async fn announce(done: T, in_force: &dyn InForce) -> Self {
        Self { done, confirmed: in_force.announce().await }
    }

    /// A result that does not affect lookups.
    pub(crate) const fn nothing(done: T) -> Self {
        Self { done, confirmed: Ok(()) }
    }
}
