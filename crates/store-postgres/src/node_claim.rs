//! The node of this machine: what belongs to its journal is written from one data directory at a time.
//!
//! A data directory that was copied has the same node and another journal. While a process runs as the node in one of them,
//! nothing is indexed, shipped or taken from the outbox out of the other.

use contactd_core::store::{StoreError, Stored};

use crate::PostgresStore;
use crate::database::Work;
use crate::failure::Tried;

/// The claim of this process to run as a node, from its data directory.
pub(crate) struct NodeClaim {
    id: String,
    data_dir: Vec<u8>,
}

/// What is said in a data directory while a process runs as its node in another one.
pub const ANOTHER_RUNS: &str = "another process runs as this node, in another data directory";

/// Whether a process runs as node $1 in another data directory than $2. One without a lease says something every second.
const RUNS_ELSEWHERE: &str =
    "SELECT EXISTS (SELECT 1 FROM nodes WHERE id = $1 AND data_dir <> $2 AND process IS NOT NULL
    AND clock_timestamp() <= seen_at + greatest(lease_ms, 2000) * interval '1 millisecond')";

impl PostgresStore {
    /// Says in which data directory this process has a node. From now on, the parts of the database that belong to that node's
    /// journal can be used only while no process runs as the node in another one.
    pub fn use_node(&self, id: &str, data_dir: Vec<u8>) {
        let _ = self.claim.set(NodeClaim { id: id.to_owned(), data_dir });
    }

    /// Claims the node for this data directory, unless a process runs as the node in another one: before this one has
    /// registered, nobody else writes as the node. Changes nothing if the node is not registered.
    pub async fn take_claim(&self) -> Stored<()> {
        let Some(NodeClaim { id, data_dir }) = self.claim.get() else { return Ok(()) };
        let take = "UPDATE nodes SET data_dir = $2, process = ''::bytea, beat = 0, lease_ms = 0, is_ready = FALSE, seen_at = now()
            WHERE id = $1 AND (process IS NULL OR data_dir = $2
                OR clock_timestamp() > seen_at + greatest(lease_ms, 2000) * interval '1 millisecond')";
        self.database.execute(take, &[id, data_dir]).await.map(|_| ())
    }

    /// Whether a process runs as the node of this machine in another data directory.
    pub async fn runs_elsewhere(&self) -> Stored<bool> {
        let Some(own) = self.claim.get() else { return Ok(false) };
        self.database.read(move |work| async move { own.runs_elsewhere(&work).await }).await
    }

    /// Fails if this is the node of this machine, and a process runs as the node in another data directory.
    pub(crate) async fn check_claim(&self, work: &Work, node: &str) -> Tried<()> {
        match self.claim.get().filter(|own| own.id == node) {
            Some(own) if own.runs_elsewhere(work).await? => {
                Err(StoreError::Unavailable(ANOTHER_RUNS.to_owned()).into())
            }
            _ => Ok(()),
        }
    }
}

impl NodeClaim {
    async fn runs_elsewhere(&self, work: &Work) -> Tried<bool> {
        Ok(work.query_one(RUNS_ELSEWHERE, &[&self.id, &self.data_dir]).await?.get(0))
    }
}
