//! The PostgreSQL engine: the source of truth of a cluster.
//!
//! All tables are in the schema `contactd` of the database. Every change has a number (`counters`, `changes`), so that nodes
//! can ask for everything newer than what they have. A change is a transaction that is repeated when the connection is lost,
//! and is made once however often it is repeated (`database.rs`).

mod ahead;
mod audit;
mod changes;
mod condition;
mod connecting;
mod counter;
mod database;
mod details;
mod entities;
mod facts;
mod failure;
mod following;
mod former;
mod import;
mod journals;
mod loading;
mod maintenance;
mod moving;
mod node_claim;
mod nodes;
mod outbox;
mod places;
mod quotas;
mod reconciling;
mod rows;
mod schema;
mod sealed_rows;
mod sealing;
mod suppressions;
mod sweep;
mod totals;
mod undo;
mod url;
mod usage;
mod whole;
mod work;

use std::sync::OnceLock;
use std::time::Duration;

use contactd_core::DigestKeys;
use contactd_core::store::{Store, Stored};

use crate::database::Database;
use crate::node_claim::NodeClaim;

pub use condition::{Condition, Foreign, NoCondition, SLOW, slow_words};
pub use database::{Unconfirmed, random_id as new_process_id};
pub use following::Listening;
pub use moving::MoveState;
pub use node_claim::ANOTHER_RUNS;
pub use nodes::{
    ClusterNode, Forgotten, Heartbeat, HeartbeatAnswer, NewestChanges, NodeClock, Registration, Speaker,
};
pub use quotas::{QuotaKey, UnitsAsked};
pub use reconciling::{Difference, DifferentRow};
pub use sealed_rows::CheckedRows;
pub use url::{StoreUrl, UrlError};

/// A database.
pub struct PostgresStore {
    database: Database,
    /// The node of this machine, if there is one.
    claim: OnceLock<NodeClaim>,
}

impl Store for PostgresStore {}

/// How to use a database.
pub struct Settings {
    /// Where it is.
    pub url: StoreUrl,
    /// How long to wait for a database that cannot be reached, as during a failover.
    pub patience: Duration,
    /// How long a server may take for an answer. Over a slow link, connecting alone takes several round trips.
    pub answer: Duration,
    /// Whether to make the tables if there are none.
    pub makes_tables: bool,
    /// Called when waiting for the database begins.
    pub on_wait: Box<dyn Fn() + Send + Sync>,
}

impl PostgresStore {
    /// Connects, and brings the tables to the newest schema; or makes them, if that is wanted.
    pub async fn open(settings: Settings) -> Stored<Self> {
        let makes_tables = settings.makes_tables;
        let database = Database::new(settings)?;
        schema::bring_up_to_date(&database, makes_tables).await?;
        Ok(Self { database, claim: OnceLock::new() })
    }

    /// Where it is, without the password.
    pub const fn url(&self) -> &StoreUrl {
        &self.database.url
    }

    /// Says with which keys tokens, suppressions and accounts are sealed and checked. Without them, they are neither.
    pub fn use_keys(&self, keys: &DigestKeys) {
        let _ = self.database.keys.set(keys.clone());
    }

    /// These keys.
    pub fn keys(&self) -> Option<&DigestKeys> {
        self.database.keys.get()
    }
}
