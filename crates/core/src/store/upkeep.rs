//! What the store remembers about itself, how changes are noticed, and maintenance.

use std::path::Path;

use crate::store::StoreFuture;
use crate::{SubjectDigest, Timestamp, Token, TokenHash};

/// What the store remembers about itself, such as the fingerprint of its digest key.
pub trait Facts: Send + Sync + 'static {
    /// A remembered fact.
    fn fact(&self, name: &str) -> impl StoreFuture<Option<String>>;

    /// Remembers a fact, unless one of that name exists. Returns the one that counts. Committed and synced
    /// when this returns.
    fn remember(&self, name: &str, value: &str) -> impl StoreFuture<String>;

    /// Forgets a fact.
    fn forget(&self, name: &str) -> impl StoreFuture<()>;
}

/// Noticing what others have changed.
pub trait Changes: Send + Sync + 'static {
    /// Numbers that differ from an earlier answer if something was committed in between, by this process or
    /// another. Never waits for somebody who writes.
    fn changes(&self) -> impl StoreFuture<ChangeNumbers>;
}

/// One number for each kind of change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChangeNumbers {
    /// Tokens and suppressions.
    pub access: u64,
    /// Details.
    pub details: u64,
}

/// Looking after the engine's files.
pub trait Maintenance: Send + Sync + 'static {
    /// Cheap upkeep, which a server runs every second. Waits for readers a moment at most, and nobody waits
    /// for it.
    fn tidy(&self) -> impl StoreFuture<()>;

    /// Sees that removed details are not in the engine's logs any more. Waits for readers for some seconds;
    /// returns whether it was done.
    fn flush_removed(&self) -> impl StoreFuture<bool>;

    /// Overwrites everything that removed details have left in the engine's files. May read all of them.
    fn wipe_removed(&self) -> impl StoreFuture<()>;

    /// What is damaged, in words; empty if nothing is.
    fn check(&self) -> impl StoreFuture<Vec<String>>;

    /// How much space each part of the store takes.
    fn sizes(&self) -> impl StoreFuture<Vec<PartSize>>;

    /// Writes a copy of everything into a directory, while others read and write: details as of one moment,
    /// then tokens and suppressions as of one moment not earlier. Returns the names of the files.
    fn copy_to(&self, dir: &Path) -> impl StoreFuture<Vec<String>>;

    /// Applies opt-outs and revocations of another store, with the times they have there. Tokens not known
    /// here are kept as revoked at `at`, so that the journal's ids keep their names.
    fn take_over(&self, withdrawals: &Withdrawals, at: Timestamp) -> impl StoreFuture<TakenOver>;
}

/// How much space a part of the store takes.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct PartSize {
    /// What the engine calls the part, such as the name of a file.
    #[serde(rename = "file")]
    pub name: String,
    /// Its size.
    pub bytes: u64,
}

/// Opt-outs and tokens of one store, to be applied to another that was made from an older backup.
#[derive(Debug, Default)]
pub struct Withdrawals {
    /// Every suppression, and since when.
    pub suppressions: Vec<(SubjectDigest, Timestamp)>,
    /// Every token, revoked or not.
    pub tokens: Vec<(TokenHash, Token)>,
}

/// How much of [`Withdrawals`] was not known before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TakenOver {
    /// Opt-outs.
    pub suppressions: u64,
    /// Tokens that were accepted and are now revoked.
    pub revocations: u64,
}
