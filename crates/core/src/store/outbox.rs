//! The outbox: entries of administrative actions that are not in the journal yet.

use async_trait::async_trait;

use crate::AdminEntry;
use crate::store::Stored;

/// The entry for the journal that belongs to a change. It is stored in the transaction of the change, with the counts
/// that the change knows, so that no change is without its entry: if it is not there afterwards, the change fails with
/// [`StoreError::NotNoted`](crate::store::StoreError::NotNoted). `None` leaves the change unrecorded: for tests, and for an opt-out
/// whose entry cannot be stored.
///
/// Methods that remove details, and those that revoke or rotate a token, undo an import, or create or change a user, store
/// it only if they changed something; the others always.
pub type Noted<'a> = Option<&'a AdminEntry>;

/// Entries that are not in the journal yet.
#[async_trait]
pub trait Outbox: Send + Sync + 'static {
    /// Adds an entry without a change. Committed and synced when this returns.
    async fn add_entry(&self, entry: &AdminEntry) -> Stored<()>;

    /// Entries for the journal of a node, oldest first: no other node gets them as long as this one answers. An engine that only one
    /// process uses has one journal, so these are all of them.
    async fn claim_entries(&self, _node: &str) -> Stored<Vec<AdminEntry>> {
        self.list_entries().await
    }

    /// All entries, oldest first.
    async fn list_entries(&self) -> Stored<Vec<AdminEntry>>;

    /// Removes entries by their ids, because they are in the journal.
    async fn remove_entries(&self, ids: &[String]) -> Stored<()>;
}
