//! Entries for the journal from a machine without a node: a running node takes them into its journal.

use contactd_core::store::Stored;
use contactd_store_postgres::PostgresStore;

use crate::nodes::{NodeState, state};

/// Whether a node runs that takes entries into its journal.
pub async fn does_a_node_run(database: &PostgresStore) -> Stored<bool> {
    let runs = |node: &_| matches!(state(node), NodeState::Serving | NodeState::Loading);
    Ok(database.list_nodes().await?.iter().any(runs))
}
