//! What the console shows of the server that it runs in, and of its cluster.

use std::sync::Arc;
use std::time::Duration;

use contactd_admin::{LookupTimes, ServerStatus};
use contactd_cluster::{ListedNode, Nodes};
use contactd_core::store::StoreError;
use contactd_core::{Clock, Finding, SuppressionList};
use contactd_services::clock_finding;
use contactd_services::views::NodeView;

use crate::data_dir::DataDir;
use crate::engine::Database;
use crate::keys::KeySource;
use crate::reloading::Running;
use crate::surroundings;

/// How long a page waits for a database that is away.
const DATABASE_TIMEOUT: Duration = Duration::from_secs(5);

/// What the status of the server is read from.
pub(crate) struct StatusSources {
    pub(crate) running: Running,
    pub(crate) suppressions: Arc<SuppressionList>,
    pub(crate) is_journal_on: bool,
    pub(crate) database: Option<Arc<Database>>,
    pub(crate) dir: DataDir,
    pub(crate) keys: KeySource,
    pub(crate) clock: Arc<dyn Clock>,
}

impl StatusSources {
    pub(crate) fn status(self) -> ServerStatus {
        let Running { app, keep, pace, .. } = self.running.clone();
        let (suppressions, is_journal_on) = (Arc::clone(&self.suppressions), self.is_journal_on);
        let of_nodes = Arc::new(self);
        let of_findings = Arc::clone(&of_nodes);
        ServerStatus {
            lookup_times: Box::new(move || {
                let [p50_micros, p99_micros] = app.upgrade()?.lookup_micros([0.5, 0.99])?;
                Some(LookupTimes { p50_micros, p99_micros })
            }),
            suppressions,
            is_journal_on,
            audit_keep: Box::new(move || *keep.lock()),
            sweep_every: Box::new(move || pace.get()),
            nodes: Box::new(move || Box::pin(Arc::clone(&of_nodes).nodes())),
            findings: Box::new(move || Box::pin(Arc::clone(&of_findings).findings())),
        }
    }

    async fn nodes(self: Arc<Self>) -> Result<Vec<NodeView>, StoreError> {
        let Some(database) = &self.database else { return Ok(Vec::new()) };
        let nodes = Nodes::new(Arc::clone(database));
        match tokio::time::timeout(DATABASE_TIMEOUT, nodes.list()).await {
            Ok(nodes) => Ok(nodes?.into_iter().map(view).collect()),
            Err(_) => Err(StoreError::Unavailable("the database does not answer".to_owned())),
        }
    }

    async fn findings(self: Arc<Self>) -> Vec<Finding> {
        let (dir, now) = (self.dir.path(), self.clock.now());
        let mut findings = vec![clock_finding(now)];
        findings.extend(self.running.tls.iter().flat_map(|tls| tls.findings(now)));
        findings.extend(surroundings::permissions(dir, &self.keys));
        findings.push(surroundings::disk(dir));
        findings.extend(surroundings::unwritable(dir));
        findings.extend(surroundings::unwritable_journal(&self.dir));
        findings.extend((!self.is_journal_on).then(surroundings::journal_is_off));
        if let Some(database) = &self.database {
            let nodes = Nodes::new(Arc::clone(database));
            let silent = || {
                let advice = "check that the database runs and can be reached from here";
                vec![Finding::fail("cluster", "the database does not answer".to_owned(), advice)]
            };
            let found = tokio::time::timeout(DATABASE_TIMEOUT, nodes.findings()).await;
            findings.extend(found.unwrap_or_else(|_| silent()));
        }
        findings
    }
}

fn view(node: ListedNode) -> NodeView {
    NodeView {
        lease: format!("{:.1} s", node.lease_left_ms as f64 / 1000.0),
        behind: node.access_behind + node.details_behind,
        state: node.state.name().to_owned(),
        id: node.id,
        name: node.name,
        version: node.version,
        seen_at: node.seen_at,
        joined_at: node.joined_at,
    }
}
