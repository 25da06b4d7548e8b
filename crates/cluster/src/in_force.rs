//! Waiting until a change is in force on every node.

use std::sync::Arc;
use std::time::{Duration, Instant};

use contactd_core::store::Stored;
use contactd_core::{Affected, Announcing, InForce, NodeNote, NotConfirmed};
use contactd_store_postgres::PostgresStore;

/// Between two looks at the nodes.
const LOOK_PAUSE: Duration = Duration::from_millis(50);

/// How long a change of details waits for the nodes that answer lookups.
const DETAILS_TIMEOUT: Duration = Duration::from_secs(10);

/// Waits until the nodes of a cluster have a change.
pub struct ClusterInForce {
    database: Arc<PostgresStore>,
}

impl ClusterInForce {
    /// For the nodes of this database.
    pub fn new(database: Arc<PostgresStore>) -> Self {
        Self { database }
    }

    /// Waits until every node has the newest change of tokens and suppressions, or may not answer any more: it gave its lease
    /// back, or a whole lease has passed since this was called. Names those that did not confirm.
    async fn access(&self) -> Stored<Vec<NodeNote>> {
        let began = Instant::now();
        let number = self.database.newest_access().await?;
        loop {
            let mut silent = self.database.list_nodes().await?;
            silent.retain(|node| !node.lease.is_zero() && node.access_number < number);
            if silent.iter().all(|node| began.elapsed() > node.lease) {
                return Ok(silent.into_iter().map(|node| NodeNote::Silent(node.name)).collect());
            }
            self.database.sleep(LOOK_PAUSE).await;
        }
    }

    /// Waits until every node that answers lookups has the newest change of details. Names those that take long.
    async fn details(&self) -> Stored<Vec<NodeNote>> {
        let began = Instant::now();
        let number = self.database.newest_details().await?;
        loop {
            let mut behind = self.database.list_nodes().await?;
            behind.retain(|node| node.may_answer() && node.details_number < number);
            if behind.is_empty() || began.elapsed() > DETAILS_TIMEOUT {
                return Ok(behind.into_iter().map(|node| NodeNote::Behind(node.name)).collect());
            }
            self.database.sleep(LOOK_PAUSE).await;
        }
    }
}

impl InForce for ClusterInForce {
    fn announce(&self, affected: Affected) -> Announcing<'_> {
        Box::pin(async move {
            let notes = match affected {
                Affected::Access => self.access().await,
                Affected::Details => self.details().await,
            };
            notes.map_err(|error| NotConfirmed::NotAsked(error.to_string()))
        })
    }
}
