//! In force: every lookup that starts after a change has returned sees the change.

use futures_core::future::BoxFuture;

/// Makes committed changes take effect in the process that serves lookups.
///
/// A command does this through `control.sock`; a server does it directly ([`AccessTables`](crate::AccessTables)).
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
    /// The database of a cluster does not have the change any more.
    #[error(
        "committed, and lost: the database has become an older one since. A standby that did not have this change has taken over, \
         or a backup was restored. Run it again; docs/cluster.md says how not to lose changes"
    )]
    Lost,
}
