//! Facts about the store itself, change detection, and maintenance.

use std::path::Path;

use async_trait::async_trait;

use crate::Timestamp;
use crate::store::{Noted, Stored, TakenOver, Withdrawals};

/// Facts that the store keeps about itself, such as the fingerprint of its digest key.
#[async_trait]
pub trait Facts: Send + Sync + 'static {
    /// Reads a fact.
    async fn fact(&self, name: &str) -> Stored<Option<String>>;

    /// Stores a fact, unless one of that name exists. Returns the value that is stored now. Committed and synced
    /// when this returns.
    async fn remember(&self, name: &str, value: &str) -> Stored<String>;

    /// Stores a fact in place of an older one.
    async fn replace_fact(&self, name: &str, value: &str, entry: Noted<'_>) -> Stored<()>;

    /// Deletes a fact.
    async fn forget(&self, name: &str) -> Stored<()>;
}

/// Detects committed changes.
#[async_trait]
pub trait Changes: Send + Sync + 'static {
    /// Returns numbers that differ from an earlier result if something was committed in between, by this process
    /// or another. Never waits for a writer.
    async fn changes(&self) -> Stored<ChangeNumbers>;

    /// A mark of the server that reads are sent to: another one after another server has taken its place.
    fn server(&self) -> u64 {
        0
    }

    /// Makes sure that the server which reads are sent to is the one that takes changes, and returns its mark. If it is another mark than
    /// before a read, what that read did not find may be there all the same.
    async fn confirm_server(&self) -> Stored<u64> {
        Ok(self.server())
    }
}

/// One number for each kind of change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChangeNumbers {
    /// Tokens and suppressions.
    pub access: u64,
    /// Details.
    pub details: u64,
}

/// Maintenance of the engine's files.
#[async_trait]
pub trait Maintenance: Send + Sync + 'static {
    /// Cheap maintenance that a server runs every second. It waits for readers only briefly, and nothing waits for
    /// it.
    async fn tidy(&self) -> Stored<()>;

    /// Clears removed details from the engine's logs. Waits some seconds for readers; returns whether it
    /// succeeded.
    async fn flush_removed(&self) -> Stored<bool>;

    /// Overwrites all traces of removed details in the engine's files. May read all of these files.
    async fn wipe_removed(&self) -> Stored<()>;

    /// Describes what is damaged; empty if nothing is.
    async fn check(&self) -> Stored<Vec<String>>;

    /// Says which tokens, opt-outs and accounts are not those that contactd stored, because somebody changed rows of the database; and
    /// whether the newest `state` of an entry in a journal is one that the database never had. Reads all of these rows. An engine
    /// whose owner has the keys too finds nothing.
    async fn check_state(&self, _noted: &[String]) -> Stored<Vec<String>> {
        Ok(Vec::new())
    }

    /// What somebody has added to the tables that can change, hide or swallow rows, such as rules and triggers; `None` if nothing is
    /// there. We make none.
    async fn find_hooks(&self) -> Stored<Option<String>> {
        Ok(None)
    }

    /// How much space each part of the store takes.
    async fn sizes(&self) -> Stored<Vec<PartSize>>;

    /// Writes a copy of everything into a directory, while others read and write. The details are a consistent
    /// snapshot; tokens and suppressions are another one, not older. Returns the names of the files. An engine whose copies
    /// are made with other tools returns [`StoreError::Unavailable`](crate::store::StoreError::Unavailable), which names them.
    async fn copy_to(&self, dir: &Path) -> Stored<Vec<String>>;

    /// Applies suppressions and revocations of another store, with their original times. A token that ends earlier
    /// there, or has fewer scopes, does here too. Tokens that are unknown here are stored as revoked at `at`, so that
    /// token ids in the journal keep their names. Users that are disabled there and admin tokens that are revoked there are so
    /// here too.
    async fn take_over(&self, withdrawals: &Withdrawals, at: Timestamp) -> Stored<TakenOver>;
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
