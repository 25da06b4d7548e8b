//! What the API shows that is not in the store: the server around it, and the cluster that it is a node of.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use contactd_core::Finding;
use contactd_core::Timestamp;
use contactd_core::store::StoreError;
use schemars::JsonSchema;
use serde::Serialize;

/// Answers that are awaited.
pub type Asking<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What the server knows that runs the API. Whoever starts it implements this.
pub trait Around: Send + Sync {
    /// How long lookups have taken since the start; `None` if there was none.
    fn lookup_times(&self) -> Option<LookupTimes>;

    /// How many people, numbers and addresses are suppressed.
    fn suppressions(&self) -> u64;

    /// Whether there is a journal, in which lookups and views are put on record.
    fn is_journal_on(&self) -> bool;

    /// How long lines of the journal are kept; `None` if for ever. A reload can change it.
    fn audit_keep(&self) -> Option<Duration>;

    /// How often expired details are removed. A reload can change it.
    fn sweep_every(&self) -> Duration;

    /// The nodes of the cluster, by name; none without a cluster.
    fn nodes(&self) -> Asking<'_, Result<Vec<NodeShown>, StoreError>>;

    /// What is found in a moment outside the store: disk, permissions, certificate, clock, cluster.
    fn findings(&self) -> Asking<'_, Vec<Finding>>;
}

/// How long lookups take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LookupTimes {
    /// Half of them took at most this long, in microseconds.
    pub p50_micros: u64,
    /// 99 of 100 took at most this long, in microseconds.
    pub p99_micros: u64,
}

/// A node of a cluster.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeShown {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The version of contactd that it runs.
    pub version: String,
    /// `serving`, `loading`, `unready`, `stopped` or `silent`.
    pub state: String,
    /// For how long it may still answer lookups without another heartbeat, such as `4.2 s`.
    pub lease: String,
    /// How many changes its copy does not contain.
    pub behind: u64,
    /// When its last heartbeat was committed.
    #[schemars(with = "String")]
    pub seen_at: Timestamp,
    /// When it joined.
    #[schemars(with = "String")]
    pub joined_at: Timestamp,
}
