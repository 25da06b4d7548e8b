//! Waiting until a change is in force on every node.

use std::sync::Arc;
use std::time::{Duration, Instant};

use contactd_core::store::{Changes, Stored};
use contactd_core::{Affected, Announcing, InForce, NodeNote, NotConfirmed};
use contactd_store_postgres::{PostgresStore, Unconfirmed};

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
    async fn access(&self) -> Stored<(Vec<NodeNote>, bool)> {
        let (began, changes) = (Instant::now(), self.database.unconfirmed_access());
        let number = self.database.newest_access().await?;
        loop {
            let mut silent = self.database.list_nodes().await?;
            silent.retain(|node| !node.lease.is_zero() && node.access_number < number);
            if silent.iter().all(|node| began.elapsed() > node.lease) {
                let notes = silent.into_iter().map(|node| NodeNote::Silent(node.name)).collect();
                return self.confirmed(notes, &changes).await;
            }
            self.database.sleep(LOOK_PAUSE).await;
        }
    }

    /// Waits until every node that answers lookups has the newest change of details. Names those that take long.
    async fn details(&self) -> Stored<(Vec<NodeNote>, bool)> {
        let (began, changes) = (Instant::now(), self.database.unconfirmed_details());
        let number = self.database.newest_details().await?;
        loop {
            let mut behind = self.database.list_nodes().await?;
            behind.retain(|node| node.may_answer() && node.details_number < number);
            if behind.is_empty() || began.elapsed() > DETAILS_TIMEOUT {
                let notes = behind.into_iter().map(|node| NodeNote::Behind(node.name)).collect();
                return self.confirmed(notes, &changes).await;
            }
            self.database.sleep(LOOK_PAUSE).await;
        }
    }

    /// With whether the database still has these changes. If a node did not confirm them, the server that was asked may be a former
    /// primary, which nodes have left.
    async fn confirmed(&self, notes: Vec<NodeNote>, changes: &Unconfirmed) -> Stored<(Vec<NodeNote>, bool)> {
        if !notes.is_empty() {
            self.database.confirm_server().await?;
        }
        Ok((notes, self.database.still_has(changes).await?))
    }
}

impl InForce for ClusterInForce {
    fn announce(&self, affected: Affected) -> Announcing<'_> {
        Box::pin(async move {
            let announced = match affected {
                Affected::Access => self.access().await,
                Affected::Details => self.details().await,
            };
            match announced {
                Ok((notes, true)) => Ok(notes),
                Ok((_, false)) => Err(NotConfirmed::Lost),
                Err(error) => Err(NotConfirmed::NotAsked(error.to_string())),
            }
        })
    }
}
