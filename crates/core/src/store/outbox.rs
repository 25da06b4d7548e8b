//! The outbox: entries of administrative actions that are not in the journal yet.

use crate::AdminEntry;
use crate::store::StoreFuture;

/// The entry for the journal that belongs to a change. It is stored in the transaction of the change, with the counts
/// that the change knows, so that no change is without its entry. `None` leaves the change unrecorded, for tests.
///
/// Methods that remove details, and those that revoke or rotate a token, undo an import, or create or change a user, store
/// it only if they changed something; the others always.
pub type Noted<'a> = Option<&'a AdminEntry>;

/// Entries that are not in the journal yet.
pub trait Outbox: Send + Sync + 'static {
    /// Adds an entry without a change. Committed and synced when this returns.
    fn add_entry(&self, entry: &AdminEntry) -> impl StoreFuture<()>;

    /// All entries, oldest first.
    fn list_entries(&self) -> impl StoreFuture<Vec<AdminEntry>>;

    /// Removes entries by their ids, because they are in the journal.
    fn remove_entries(&self, ids: &[String]) -> impl StoreFuture<()>;
}
