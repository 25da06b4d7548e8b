//! What the console shows of the server that it runs in, and of its cluster.

use std::sync::{Arc, Weak};
use std::time::Duration;

use contactd_admin::{Around, Asking, LookupTimes, NodeShown};
use contactd_cluster::{ListedNode, Nodes};
use contactd_core::Finding;
use contactd_core::store::StoreError;
use contactd_core::{Clock, SuppressionList};
use contactd_server::App;
use contactd_services::clock_finding;
use contactd_tls::Tls;

use crate::data_dir::DataDir;
use crate::engine::{Database, Files};
use crate::indexer::Keep;
use crate::keys::KeySource;
use crate::surroundings;
use crate::sweeper::Pace;

/// How long a page waits for a database that is away.
const PATIENCE: Duration = Duration::from_secs(5);

/// The server around the console.
pub(crate) struct ServerAround {
    /// Not kept alive: the journal is closed when the last lookup has released it.
    pub(crate) app: Weak<App<Files>>,
    pub(crate) suppressions: Arc<SuppressionList>,
    pub(crate) is_journal_on: bool,
    pub(crate) keep: Keep,
    pub(crate) pace: Pace,
    pub(crate) database: Option<Arc<Database>>,
    pub(crate) dir: DataDir,
    pub(crate) keys: KeySource,
    pub(crate) tls: Option<Arc<Tls>>,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Around for ServerAround {
    fn lookup_times(&self) -> Option<LookupTimes> {
        let [p50_micros, p99_micros] = self.app.upgrade()?.lookup_micros([0.5, 0.99])?;
        Some(LookupTimes { p50_micros, p99_micros })
    }

    fn suppressions(&self) -> u64 {
        self.suppressions.len() as u64
    }

    fn is_journal_on(&self) -> bool {
        self.is_journal_on
    }

    fn audit_keep(&self) -> Option<Duration> {
        self.keep.get()
    }

    fn sweep_every(&self) -> Duration {
        self.pace.get()
    }

    fn nodes(&self) -> Asking<'_, Result<Vec<NodeShown>, StoreError>> {
        Box::pin(async {
            let Some(database) = &self.database else { return Ok(Vec::new()) };
            let nodes = Nodes::new(Arc::clone(database));
            match tokio::time::timeout(PATIENCE, nodes.list()).await {
                Ok(nodes) => Ok(nodes?.into_iter().map(shown).collect()),
                Err(_) => Err(StoreError::Unavailable("the database does not answer".to_owned())),
            }
        })
    }

    fn findings(&self) -> Asking<'_, Vec<Finding>> {
        Box::pin(async {
            let (dir, now) = (self.dir.path(), self.clock.now());
            let mut findings = vec![clock_finding(now)];
            findings.extend(self.tls.iter().flat_map(|tls| tls.findings(now)));
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
                let found = tokio::time::timeout(PATIENCE, nodes.findings()).await;
                findings.extend(found.unwrap_or_else(|_| silent()));
            }
            findings
        })
    }
}

fn shown(node: ListedNode) -> NodeShown {
    NodeShown {
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
