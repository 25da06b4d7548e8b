//! The nodes of a cluster, for operators.

use std::sync::Arc;
use std::time::{Duration, Instant};

use contactd_core::Finding;
use contactd_core::store::{Outbox, StoreError, Stored};
use contactd_core::{Actor, AdminEntry, Timestamp};
use contactd_store_postgres::{ANOTHER_RUNS, ClusterNode, Forgotten, PostgresStore};
use serde::Serialize;

use crate::clock::{COMPARE_CLOCKS, NOTABLE, WRONG};

/// Between two looks at a node.
const LOOK_PAUSE: Duration = Duration::from_millis(100);

/// Lists and forgets nodes.
pub struct Nodes {
    database: Arc<PostgresStore>,
}

/// A node, and how it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the fields are the words of the glossary")]
pub struct ListedNode {
    pub id: String,
    pub name: String,
    pub version: String,
    pub joined_at: Timestamp,
    /// When its last heartbeat was committed.
    pub seen_at: Timestamp,
    pub state: NodeState,
    /// For how many milliseconds it may still answer lookups without another heartbeat.
    pub lease_left_ms: u64,
    /// Whether its copy is complete, and its journal can be written.
    pub is_ready: bool,
    pub access_number: i64,
    pub details_number: i64,
    /// How many changes of tokens and suppressions its copy does not contain.
    pub access_behind: u64,
    /// How many changes of details its copy does not contain.
    pub details_behind: u64,
    /// How many opt-outs and limits of tokens it holds that the database has lost.
    pub held: u64,
    /// By how many milliseconds its clock is ahead of the database's, if it has compared them.
    pub clock_ahead_ms: Option<i64>,
}

/// What a node does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum NodeState {
    /// It answers lookups.
    Serving,
    /// It copies the database, and answers no lookups yet.
    Loading,
    /// It has a lease, and answers no lookups, because its journal cannot be written.
    JournalDown,
    /// It answers no lookups, because its clock is wrong.
    WrongClock,
    /// It was stopped in order.
    Stopped,
    /// Its lease has ended without a word: it was killed, hangs, or cannot reach the database.
    Silent,
}

impl NodeState {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Serving => "serving",
            Self::Loading => "loading",
            Self::JournalDown => "journal down",
            Self::WrongClock => "wrong clock",
            Self::Stopped => "stopped",
            Self::Silent => "silent",
        }
    }
}

/// Why a node was not forgotten.
#[derive(Debug, thiserror::Error)]
pub enum ForgetError {
    /// There is none.
    #[error("there is no node `{0}`; `contactd node list` shows their ids and names")]
    Unknown(String),
    /// Several have this name.
    #[error("{} nodes have the name `{name}`: give the id of one of them; they are {}", ids.len(), ids.join(", "))]
    Several {
        /// The name.
        name: String,
        /// Their ids.
        ids: Vec<String>,
    },
    /// It may still answer lookups.
    #[error(
        "node {name} may answer lookups for another {} s. Stop it first; if it cannot be reached, add --yes to wait that long",
        left.as_secs() + 1
    )]
    MayAnswer {
        /// Its name.
        name: String,
        /// For how long.
        left: Duration,
    },
    /// It goes on.
    #[error("node {0} is running and renews its lease. Stop it first: a running node would register again")]
    Runs(String),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Nodes {
    /// Of this database.
    pub fn new(database: Arc<PostgresStore>) -> Self {
        Self { database }
    }

    /// All nodes, by name.
    pub async fn list(&self) -> Stored<Vec<ListedNode>> {
        let nodes = self.database.list_nodes().await?;
        let newest = self.database.numbers().await?;
        let behind = |newest: i64, number: i64| u64::try_from(newest - number).unwrap_or(0);
        let listed = nodes.into_iter().map(|node| ListedNode {
            state: state(&node),
            lease_left_ms: u64::try_from(left(&node).as_millis()).unwrap_or(u64::MAX),
            access_behind: behind(newest.access.number, node.access_number),
            details_behind: behind(newest.details.number, node.details_number),
            id: node.id,
            name: node.name,
            version: node.version,
            joined_at: node.joined_at,
            seen_at: node.seen_at,
            is_ready: node.is_ready,
            access_number: node.access_number,
            details_number: node.details_number,
            held: node.held,
            clock_ahead_ms: node.clock_ahead_ms,
        });
        Ok(listed.collect())
    }

    /// What `doctor` has to say about them.
    pub async fn findings(&self) -> Vec<Finding> {
        let nodes = match self.list().await {
            Ok(nodes) => nodes,
            Err(error) => {
                let advice = "check that the database runs and can be reached from here";
                return vec![Finding::fail("cluster", error.to_string(), advice)];
            }
        };
        let serving = nodes.iter().filter(|node| node.state == NodeState::Serving).count();
        let runs = nodes.iter().any(|node| node.state != NodeState::Stopped);
        let mut findings = vec![match serving {
            0 if runs => Finding::fail(
                "cluster",
                "no node answers lookups".to_owned(),
                "contactd node list shows the state of each; what is said of them here says what to do",
            ),
            0 => Finding::warn("cluster", "no node runs".to_owned(), "start one with contactd serve"),
            _ => Finding::ok("cluster", format!("{serving} of {} nodes serve", nodes.len())),
        }];
        if matches!(self.database.runs_elsewhere().await, Ok(true)) {
            let advice = "stop one of the two. To make this data directory that of a new node: stop its process, delete everything in it \
                but keys/digest-*.key, and start it again";
            findings.push(Finding::fail("cluster", format!("{ANOTHER_RUNS}: this one was copied"), advice));
        }
        for node in &nodes {
            let ListedNode { id, name, seen_at, .. } = node;
            if node.state == NodeState::Silent {
                let message = format!("node {name} has been silent since {seen_at}");
                let advice = format!("look at its log; if it will not come back: contactd node forget {id}");
                findings.push(Finding::warn("cluster", message, &advice));
            }
            if node.state == NodeState::JournalDown {
                let message =
                    format!("node {name} runs and answers no lookups: its audit journal cannot be written");
                let advice = "look at its log, at the disk of its machine, and whether its data directory is still there; it goes on by itself";
                findings.push(Finding::warn("cluster", message, advice));
            }
            let ahead = node.clock_ahead_ms.filter(|ahead| is_off(*ahead, NOTABLE));
            if let Some(ahead) =
                ahead.filter(|_| node.state != NodeState::Silent && node.state != NodeState::Stopped)
            {
                findings.push(clock_finding(node, ahead));
            }
            if node.held > 0 {
                let message = format!(
                    "node {name} holds {} opt-outs, or revocations or limits of tokens, that the database has lost: other nodes may disclose these people or accept these tokens",
                    node.held
                );
                let advice = "keep its data directory; on its machine, contactd node reconcile shows them, and with --yes puts them back";
                findings.push(Finding::fail("cluster", message, advice));
            }
            if node.state == NodeState::Serving && node.access_behind + node.details_behind > 0 {
                let message = format!(
                    "the copy of node {name} lacks {} changes of tokens and opt-outs, and {} of details",
                    node.access_behind, node.details_behind
                );
                let advice = "run this again; if it stays behind, look at its log";
                findings.push(Finding::warn("cluster", message, advice));
            }
        }
        findings
    }

    /// Forgets a node, by its id or name: no change waits for it any more, and nothing is kept for it. One that may still answer lookups is
    /// forgotten only once its lease has ended; without `waits`, it is refused. Returns its name. The entry for the journal
    /// waits in the database.
    pub async fn forget(
        &self,
        actor: &Actor,
        named: &str,
        waits: bool,
        at: Timestamp,
    ) -> Result<String, ForgetError> {
        let found = self.find_named(named).await;
        let entry = AdminEntry::new(actor, "node forget", at);
        let entry = match &found {
            Ok(node) => entry.about_node(&node.id),
            Err(_) => entry.about(named),
        };
        let forgotten = match &found {
            Ok(node) => self.forget_node(&node.id, waits).await,
            Err(_) => found.map(|node| node.name),
        };
        let noted = if forgotten.is_ok() { entry } else { entry.failed() };
        self.database.add_entry(&noted).await?;
        forgotten
    }

    async fn forget_node(&self, id: &str, waits: bool) -> Result<String, ForgetError> {
        let began = Instant::now();
        let first = self.find(id).await?;
        loop {
            match self.database.forget_node(id).await? {
                Forgotten::Done => return Ok(first.name),
                Forgotten::Unknown => return Err(ForgetError::Unknown(id.to_owned())),
                Forgotten::Alive => {}
            }
            let node = self.find(id).await?;
            if !waits {
                return Err(ForgetError::MayAnswer { left: left(&node), name: node.name });
            }
            if node.seen_at != first.seen_at && began.elapsed() > first.lease {
                return Err(ForgetError::Runs(node.name));
            }
            self.database.sleep(LOOK_PAUSE).await;
        }
    }

    /// The node with this id, or else the one with this name.
    async fn find_named(&self, named: &str) -> Result<ClusterNode, ForgetError> {
        let mut nodes = self.database.list_nodes().await?;
        if nodes.iter().any(|node| node.id == named) {
            nodes.retain(|node| node.id == named);
        }
        nodes.retain(|node| node.id == named || node.name == named);
        if nodes.len() > 1 {
            let ids = nodes.into_iter().map(|node| node.id).collect();
            return Err(ForgetError::Several { name: named.to_owned(), ids });
        }
        nodes.pop().ok_or_else(|| ForgetError::Unknown(named.to_owned()))
    }

    async fn find(&self, id: &str) -> Result<ClusterNode, ForgetError> {
        let nodes = self.database.list_nodes().await?;
        nodes.into_iter().find(|node| node.id == id).ok_or_else(|| ForgetError::Unknown(id.to_owned()))
    }
}

/// What there is to say about a clock that differs from the database's.
fn clock_finding(ListedNode { name, state, .. }: &ListedNode, ahead_ms: i64) -> Finding {
    let seconds = (ahead_ms.abs() + 500) / 1_000;
    let how = if ahead_ms > 0 { "ahead of" } else { "behind" };
    let differs = format!("the clock of node {name} is {seconds} s {how} the database's");
    match state {
        NodeState::WrongClock => Finding::fail(
            "clock",
            format!("{differs}, and differs from those of the other nodes: it answers no lookups"),
            "set it, or let NTP do so; the node goes on by itself",
        ),
        _ if is_off(ahead_ms, WRONG) => Finding::fail(
            "clock",
            format!("{differs}, and no other node's clock contradicts it"),
            COMPARE_CLOCKS,
        ),
        _ => Finding::warn("clock", differs, "set it, or let NTP do so"),
    }
}

/// Whether a clock differs from the database's by more than this.
fn is_off(ahead_ms: i64, most: Duration) -> bool {
    Duration::from_millis(ahead_ms.unsigned_abs()) > most
}

/// How long a node may still answer lookups.
fn left(node: &ClusterNode) -> Duration {
    node.lease.saturating_sub(node.silent_for)
}

fn state(node: &ClusterNode) -> NodeState {
    /// A node without a lease says at least this often that it is there.
    const SAYS: Duration = Duration::from_secs(30);
    match node {
        node if !left(node).is_zero() && node.is_ready => NodeState::Serving,
        node if !left(node).is_zero() => NodeState::JournalDown,
        node if node.has_left => NodeState::Stopped,
        node if node.lease.is_zero()
            && node.silent_for < SAYS
            && node.clock_ahead_ms.is_some_and(|ahead| is_off(ahead, WRONG)) =>
        {
            NodeState::WrongClock
        }
        node if node.lease.is_zero() && node.silent_for < SAYS => NodeState::Loading,
        _ => NodeState::Silent,
    }
}

/// Whether a node runs: it takes entries for the journal from machines without a node into its own.
pub async fn does_a_node_run(database: &PostgresStore) -> Stored<bool> {
    let runs = |node: &_| matches!(state(node), NodeState::Serving | NodeState::Loading);
    Ok(database.list_nodes().await?.iter().any(runs))
}
