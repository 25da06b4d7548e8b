//! On record: what was done or read is in the journal.

use futures_core::future::BoxFuture;

use crate::AdminEntry;

/// Puts administrative actions on record. Implemented by the code that can reach the journal: directly inside a
/// server, through `control.sock` from a command.
pub trait OnRecord: Send + Sync {
    /// Records an action. Used before personal data is read: if it cannot be recorded, it must not be read.
    fn record<'a>(&'a self, entry: &'a AdminEntry) -> Recording<'a>;

    /// Moves the entries of committed changes from the store's outbox to the journal. Those that were `stored` with a change, by
    /// their ids, are on record when this succeeds: a signed line has each of them. That one is not in the outbox any more does
    /// not count, because whoever can write to the store can remove it.
    fn collect<'a>(&'a self, stored: &'a [&'a str]) -> Recording<'a>;
}

/// Recording in progress.
pub type Recording<'a> = BoxFuture<'a, Result<(), NotRecorded>>;

/// An action is not on record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotRecorded {
    /// The operator has switched the journal off.
    #[error("the audit journal is off, so this is not on record")]
    Off,
    /// The journal cannot be written now.
    #[error("this cannot be recorded in the audit journal now: {0}")]
    Unavailable(String),
}
