//! Entries for the journal from a machine without a node: a running node takes them into its journal.

use std::time::{Duration, Instant};

use contactd_core::AdminEntry;
use contactd_core::store::{Outbox, Stored};
use contactd_store_postgres::PostgresStore;

use crate::nodes::{NodeState, state};

/// How long to wait for a node.
const TAKEN_TIMEOUT: Duration = Duration::from_secs(5);
/// Between two looks.
const LOOK_PAUSE: Duration = Duration::from_millis(20);

/// Whether nodes have put entries into their journals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// They have.
    All,
    /// They have not, in the time that they get.
    NotInTime,
    /// No node runs.
    NoNode,
}

/// Has a node put an entry into its journal. If none does in time, the entry is taken back.
pub async fn record_by_a_node(database: &PostgresStore, entry: &AdminEntry) -> Stored<Taken> {
    if !does_a_node_run(database).await? {
        return Ok(Taken::NoNode);
    }
    database.add_entry(entry).await?;
    if is_taken(database, entry, Instant::now() + TAKEN_TIMEOUT).await? {
        return Ok(Taken::All);
    }
    database.remove_entries(std::slice::from_ref(&entry.entry)).await?;
    Ok(Taken::NotInTime)
}

/// Waits until nodes have taken everything that waits now, if any runs. What they do not take goes on waiting in the database.
pub async fn taken_by_nodes(database: &PostgresStore) -> Stored<Taken> {
    let until = Instant::now() + TAKEN_TIMEOUT;
    let entries = database.list_entries().await?;
    if !entries.is_empty() && !does_a_node_run(database).await? {
        return Ok(Taken::NoNode);
    }
    for entry in &entries {
        if !is_taken(database, entry, until).await? {
            return Ok(Taken::NotInTime);
        }
    }
    Ok(Taken::All)
}

async fn does_a_node_run(database: &PostgresStore) -> Stored<bool> {
    let runs = |node: &_| matches!(state(node), NodeState::Serving | NodeState::Loading);
    Ok(database.list_nodes().await?.iter().any(runs))
}

async fn is_taken(database: &PostgresStore, entry: &AdminEntry, until: Instant) -> Stored<bool> {
    while database.has_entry(&entry.entry).await? {
        if Instant::now() > until {
            return Ok(false);
        }
        database.sleep(LOOK_PAUSE).await;
    }
    Ok(true)
}
