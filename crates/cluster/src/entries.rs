//! Entries for the journal from a machine without a node: a running node takes them into its journal.

use std::time::{Duration, Instant};

use contactd_core::AdminEntry;
use contactd_core::store::{Outbox, StoreError};
use contactd_store_postgres::PostgresStore;

/// How long to wait for a node.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// Has a node put an entry into its journal. If none does in time, the entry is taken back, and this returns false.
pub async fn record_by_a_node(database: &PostgresStore, entry: &AdminEntry) -> Result<bool, StoreError> {
    database.add_entry(entry).await?;
    if is_taken(database, entry, Instant::now() + PATIENCE).await? {
        return Ok(true);
    }
    database.remove_entries(std::slice::from_ref(&entry.entry)).await?;
    Ok(false)
}

/// Waits until nodes have taken everything that waits now. Returns false if they have not in time.
pub async fn taken_by_nodes(database: &PostgresStore) -> Result<bool, StoreError> {
    let until = Instant::now() + PATIENCE;
    for entry in &database.list_entries().await? {
        if !is_taken(database, entry, until).await? {
            return Ok(false);
        }
    }
    Ok(true)
}

async fn is_taken(database: &PostgresStore, entry: &AdminEntry, until: Instant) -> Result<bool, StoreError> {
    while database.has_entry(&entry.entry).await? {
        if Instant::now() > until {
            return Ok(false);
        }
        database.sleep(LOOK).await;
    }
    Ok(true)
}
