//! The index of the journals, to answer queries without reading them.

use async_trait::async_trait;

use crate::store::Stored;
use crate::{AdminEntry, AdminRecord, Asked, AuditPosition, AuditRecord, ShortDigest, Timestamp};

/// Is given a line, and returns whether to continue.
pub type VisitLines<'a> = &'a mut (dyn FnMut(IndexedLine) -> bool + Send);

/// An index of the journals. A line is identified by its node and its number, because each node has its own
/// journal. The index can be rebuilt from the journals.
#[async_trait]
pub trait AuditIndex: Send + Sync + 'static {
    /// How far the journal of a node has been indexed.
    async fn audit_position(&self, node: &str) -> Stored<AuditPosition>;

    /// Adds the lines read between two positions, if the node's journal is still indexed exactly up to the first
    /// one. So each line is added once, even if several processes index it. Returns whether they were added.
    async fn index_audit(&self, step: IndexStep<'_>) -> Stored<bool>;

    /// Removes the lines of a node, so that its journal is indexed again. Usage counts of days before `first_day`
    /// stay, because the journal no longer has those days.
    async fn reset_audit_index(&self, node: &str, first_day: i64) -> Stored<()>;

    /// Removes the lines of a node up to this number. Usage counts stay.
    async fn forget_audit(&self, node: &str, through: u64) -> Stored<()>;

    /// Where the index says that these entries of administrative actions are, by their ids.
    async fn find_entries(&self, ids: &[String]) -> Stored<Vec<EntryPlace>>;

    /// The indexed lines of a node with numbers from `from` to `through`, in order.
    async fn indexed(&self, node: &str, from: u64, through: u64) -> Stored<Vec<IndexedLine>>;

    /// The nodes of which something is indexed that has to be in their journals, in order.
    async fn indexed_nodes(&self) -> Stored<Vec<String>>;

    /// How many lines of a node are indexed that come after its position.
    async fn count_after_position(&self, node: &str) -> Stored<u64>;

    /// Removes everything of a node, also its usage counts.
    async fn remove_node(&self, node: &str) -> Stored<()>;

    /// What is wrong with the index as a file, so that it may not show all of its lines; empty if nothing is. Resetting the
    /// index repairs it.
    async fn check_index(&self) -> Stored<Vec<String>>;

    /// Usage of every token by day, on one node.
    async fn audit_usage_of(&self, node: &str) -> Stored<Vec<AuditUsage>>;

    /// Visits the lines of all nodes that match, newest first by their time; lines of one node with the same time by
    /// number, the highest first. Keeps no more lines in memory than `filter.newest`, or than match. `visit` returns
    /// whether to continue.
    async fn visit_audit(&self, filter: &AuditFilter, visit: VisitLines<'_>) -> Stored<()>;

    /// Usage of every token by day, on all nodes together, from the UTC day `since` on.
    async fn audit_usage(&self, since: i64) -> Stored<Vec<AuditUsage>>;
}

/// Where the index says that an entry of an administrative action is. Only its line proves that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryPlace {
    /// The id of the entry.
    pub entry: String,
    /// The node in whose journal it is.
    pub node: String,
    /// The number of its line.
    pub seq: u64,
}

/// Lines of one node's journal to index together.
#[derive(Clone, Copy, Debug)]
pub struct IndexStep<'a> {
    /// The node whose journal it is.
    pub node: &'a str,
    /// The requests among the lines.
    pub records: &'a [AuditRecord],
    /// The administrative actions among them.
    pub admin: &'a [AdminRecord],
    /// Ranges (first, last) of earlier or new lines that say hit or miss although nothing was disclosed. They
    /// count as refused.
    pub undisclosed: &'a [(u64, u64)],
    /// The position where reading began.
    pub from: AuditPosition,
    /// The position where it ended.
    pub to: AuditPosition,
}

/// A line of the journal, as the index has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexedLine {
    /// A request.
    Request(AuditRecord),
    /// An administrative action.
    Admin(AdminRecord),
}

impl IndexedLine {
    /// The number of the line.
    pub const fn seq(&self) -> u64 {
        match self {
            Self::Request(record) => record.seq,
            Self::Admin(record) => record.seq,
        }
    }

    /// The node in whose journal it is.
    pub fn node(&self) -> &str {
        match self {
            Self::Request(record) => &record.node,
            Self::Admin(record) => &record.node,
        }
    }

    /// The time of the request or action.
    pub const fn at(&self) -> Timestamp {
        match self {
            Self::Request(record) => record.at,
            Self::Admin(record) => record.entry.time,
        }
    }
}

/// Selects lines. All conditions that are given must match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// At or after this time.
    pub since: Option<Timestamp>,
    /// Before this time.
    pub until: Option<Timestamp>,
    /// Which requests; `None` for none.
    pub requests: Option<RequestFilter>,
    /// Which administrative actions; `None` for none.
    pub actions: Option<ActionFilter>,
    /// At most this many, the newest.
    pub newest: Option<u64>,
}

/// Selects requests. All conditions that are given must match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestFilter {
    /// Of one of these tokens, by id.
    pub tokens: Option<Vec<String>>,
    /// About one of these profiles.
    pub profiles: Option<Vec<ShortDigest>>,
    /// Disclosures of one of these values.
    pub values: Option<Vec<ShortDigest>>,
    /// That asked for this.
    pub operation: Option<Asked>,
    /// With this outcome.
    pub outcome: Option<String>,
    /// With this id, or with one of these digests of the id that the caller sent.
    pub request: Option<(String, Vec<ShortDigest>)>,
}

/// Selects administrative actions. All conditions that are given must match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ActionFilter {
    /// By this actor.
    pub actor: Option<String>,
    /// Of this name.
    pub operation: Option<String>,
    /// With this outcome.
    pub outcome: Option<String>,
    /// About all of these subjects. Each is given by the names that an entry may have for it.
    pub subjects: Vec<Vec<String>>,
}

impl AuditFilter {
    /// Selects requests at any time.
    pub fn of_requests(requests: RequestFilter) -> Self {
        Self { requests: Some(requests), ..Self::default() }
    }

    /// Whether the filter matches a line.
    pub fn matches(&self, line: &IndexedLine) -> bool {
        self.since.is_none_or(|since| line.at() >= since)
            && self.until.is_none_or(|until| line.at() < until)
            && match line {
                IndexedLine::Request(record) => {
                    self.requests.as_ref().is_some_and(|filter| filter.matches(record))
                }
                IndexedLine::Admin(record) => {
                    self.actions.as_ref().is_some_and(|filter| filter.matches(&record.entry))
                }
            }
    }
}

impl RequestFilter {
    /// Whether the filter matches a request.
    pub fn matches(&self, record: &AuditRecord) -> bool {
        let is_one_of = |wanted: &Option<Vec<ShortDigest>>, digest: Option<&ShortDigest>| {
            wanted.as_ref().is_none_or(|wanted| digest.is_some_and(|digest| wanted.contains(digest)))
        };
        self.tokens.as_ref().is_none_or(|tokens| tokens.contains(&record.token))
            && is_one_of(&self.profiles, record.profile.as_ref().map(|(_, digest)| digest))
            && is_one_of(&self.values, record.value.as_ref())
            && self.operation.is_none_or(|operation| operation == record.operation)
            && self.outcome.as_ref().is_none_or(|outcome| *outcome == record.outcome)
            && self.request.as_ref().is_none_or(|(id, given)| {
                *id == record.request_id || record.given_id.is_some_and(|digest| given.contains(&digest))
            })
    }
}

impl ActionFilter {
    /// Whether the filter matches an action.
    pub fn matches(&self, entry: &AdminEntry) -> bool {
        let is_about = |names: &Vec<String>| entry.subjects.iter().any(|subject| names.contains(subject));
        self.actor.as_ref().is_none_or(|actor| is_by(entry, actor))
            && self.operation.as_ref().is_none_or(|operation| *operation == entry.operation)
            && self.outcome.as_ref().is_none_or(|outcome| outcome == entry.outcome.name())
            && self.subjects.iter().all(is_about)
    }
}

/// Whether an action was by this actor. An admin token is given by its name, its id, or both as they are recorded.
fn is_by(entry: &AdminEntry, actor: &str) -> bool {
    let token = entry.actor.strip_suffix(')').and_then(|text| text.rsplit_once(" (adm_"));
    entry.actor == actor
        || token.is_some_and(|(name, id)| name == actor || actor.strip_prefix("adm_") == Some(id))
}

/// Usage of a token on one UTC day.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are the words of the glossary")]
pub struct AuditUsage {
    pub token: String,
    pub day: i64,
    pub hits: u64,
    pub misses: u64,
    pub refused: u64,
}
