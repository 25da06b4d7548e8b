//! What the API shows that is not in the store: the server that runs it, and the cluster that the server is a node of.

use std::sync::Arc;
use std::time::Duration;

use contactd_core::store::StoreError;
use contactd_core::{Finding, SuppressionList};
use contactd_services::views::NodeView;
use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::Serialize;

/// Something that is read when it is needed, because it changes while the server runs.
type Reading<T> = Box<dyn Fn() -> T + Send + Sync>;

/// What the server knows that is not in the store. Whoever starts it fills this in.
pub struct ServerStatus {
    /// How long lookups have taken since the start; `None` if there was none.
    pub lookup_times: Reading<Option<LookupTimes>>,
    /// The people, numbers and addresses that are suppressed.
    pub suppressions: Arc<SuppressionList>,
    /// Whether there is a journal, in which lookups and views are put on record.
    pub is_journal_on: bool,
    /// How long lines of the journal are kept; `None` if for ever. A reload can change it.
    pub audit_keep: Reading<Option<Duration>>,
    /// How often expired details are removed. A reload can change it.
    pub sweep_every: Reading<Duration>,
    /// The nodes of the cluster, by name; none without a cluster.
    pub nodes: Reading<BoxFuture<'static, Result<Vec<NodeView>, StoreError>>>,
    /// What is found in a moment outside the store: disk, permissions, certificate, clock, cluster.
    pub findings: Reading<BoxFuture<'static, Vec<Finding>>>,
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
