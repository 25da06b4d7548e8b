//! What a node is started with.

use std::sync::Arc;
use std::time::Duration;

use contactd_core::{BootClock, Callers, Lease, RefreshError, Timestamp};
use contactd_store_postgres::PostgresStore;
use contactd_store_sqlite::SqliteStore;
use futures_core::future::BoxFuture;
use tokio::runtime::Handle;

/// What a node needs.
pub struct NodeSettings {
    /// The database.
    pub database: Arc<PostgresStore>,
    /// The files of this node, which hold its copy.
    pub local: Arc<SqliteStore>,
    /// The id of this node, which stays the same when it is started again.
    pub node: String,
    /// Its name, for people.
    pub name: String,
    /// Its data directory, as [`data_dir_id`](crate::data_dir_id) names it. Whoever starts a node has the lock of that directory.
    pub data_dir: Option<Vec<u8>>,
    /// How long it may answer lookups after a heartbeat.
    pub lease_length: Duration,
    /// The clock of its lease.
    pub clock: Arc<dyn BootClock>,
    /// Puts what is in the files in force in this process.
    pub put_in_force: PutInForce,
    /// Its lease, which lookups ask.
    pub lease: Lease,
    /// Its callers, for whose quotas it leases units.
    pub callers: Arc<Callers>,
    /// Whether its callers will know what was used before this process: not without a journal.
    pub usage_is_counted: bool,
    /// Where its threads wait for the database.
    pub runtime: Handle,
    /// Whether its journal can be written: without that, it answers no lookups.
    pub can_record: Box<dyn Fn() -> bool + Send + Sync>,
}

/// Puts tokens and suppressions in force. When this is done, every lookup that starts afterwards sees those in the local files.
pub type PutInForce = Box<dyn Fn() -> BoxFuture<'static, Result<(), RefreshError>> + Send + Sync>;

impl NodeSettings {
    /// The time of the database, which decides when the day of a quota begins.
    pub(crate) fn database_time(&self) -> Timestamp {
        let now = self.clock.now();
        self.callers.leases().map_or(now, |leases| leases.time(now))
    }
}
