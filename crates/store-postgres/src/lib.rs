//! The PostgreSQL engine: the source of truth of a cluster.
//!
//! All tables are in the schema `contactd` of the database. Every change has a number (`counters`, `changes`), so that nodes
//! can ask for everything newer than what they have. A change is a transaction that is repeated when the connection is lost,
//! and is made once however often it is repeated (`database.rs`).

mod connecting;
mod database;
mod facts;
mod failure;
mod schema;
mod url;

use std::time::Duration;

use contactd_core::store::StoreError;

use crate::database::Database;

pub use url::{StoreUrl, UrlError};

/// A database.
pub struct PostgresStore {
    database: Database,
}

/// How to use a database.
pub struct Settings {
    /// Where it is.
    pub url: StoreUrl,
    /// How long to wait for a database that cannot be reached, as during a failover.
    pub patience: Duration,
    /// Called when waiting for the database begins.
    pub on_wait: Box<dyn Fn() + Send + Sync>,
}

impl PostgresStore {
    /// Connects, and creates or migrates the tables if necessary.
    pub async fn open(settings: Settings) -> Result<Self, StoreError> {
        let database = Database::new(settings)?;
        schema::migrate(&database).await?;
        Ok(Self { database })
    }
}
