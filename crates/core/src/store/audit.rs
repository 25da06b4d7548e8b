//! The index of the journals, so that questions about them need not read them.

use crate::store::StoreFuture;
use crate::{AuditPosition, AuditRecord, ProfileDigest, Timestamp};

/// What the journals say, found quickly. A line is identified by its node and its number: each node has a
/// journal of its own. The index can be rebuilt from the journals.
pub trait AuditIndex: Send + Sync + 'static {
    /// How far the journal of a node has been indexed.
    fn audit_position(&self, node: &str) -> impl StoreFuture<AuditPosition>;

    /// Adds the lines read between two positions, if the first one is still how far the node's journal has
    /// been indexed: each line is added once, whoever else does the same. Returns whether they were added.
    fn index_audit(&self, step: IndexStep<'_>) -> impl StoreFuture<bool>;

    /// Forgets the lines of a node, to index its journal again. Usage counts of days before `first_day` stay:
    /// the journal no longer has them.
    fn reset_audit_index(&self, node: &str, first_day: i64) -> impl StoreFuture<()>;

    /// Forgets the lines of a node up to this number; usage counts stay.
    fn forget_audit(&self, node: &str, through: u64) -> impl StoreFuture<()>;

    /// Requests that match, those of each node in order. `visit` returns whether to continue.
    fn visit_audit(
        &self,
        filter: &AuditFilter,
        visit: impl FnMut(AuditRecord) -> bool + Send,
    ) -> impl StoreFuture<()>;

    /// What every token did, by day, on all nodes.
    fn audit_usage(&self) -> impl StoreFuture<Vec<AuditUsage>>;
}

/// Lines of one node's journal to be indexed together.
#[derive(Clone, Copy, Debug)]
pub struct IndexStep<'a> {
    /// The node whose journal it is.
    pub node: &'a str,
    /// The requests among the lines.
    pub records: &'a [AuditRecord],
    /// Ranges of earlier or new lines, first and last, that say hit or miss although nothing was disclosed:
    /// they count as refused.
    pub undisclosed: &'a [(u64, u64)],
    /// Where reading began.
    pub from: AuditPosition,
    /// Where it ended.
    pub to: AuditPosition,
}

/// Which requests are meant. Everything that is given has to match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// Of one of these tokens, by id.
    pub tokens: Option<Vec<String>>,
    /// About one of these profiles.
    pub profiles: Option<Vec<ProfileDigest>>,
    /// At or after this time.
    pub since: Option<Timestamp>,
    /// Before this time.
    pub until: Option<Timestamp>,
    /// With this outcome.
    pub outcome: Option<String>,
}

impl AuditFilter {
    /// Whether the filter matches a request.
    pub fn matches(&self, record: &AuditRecord) -> bool {
        let digest = record.profile.as_ref().map(|(_, digest)| digest);
        self.tokens.as_ref().is_none_or(|tokens| tokens.contains(&record.token))
            && self
                .profiles
                .as_ref()
                .is_none_or(|wanted| digest.is_some_and(|digest| wanted.contains(digest)))
            && self.since.is_none_or(|since| record.at >= since)
            && self.until.is_none_or(|until| record.at < until)
            && self.outcome.as_ref().is_none_or(|outcome| *outcome == record.outcome)
    }
}

/// What a token did on one UTC day.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are the words of the glossary")]
pub struct AuditUsage {
    pub token: String,
    pub day: i64,
    pub hits: u64,
    pub misses: u64,
    pub refused: u64,
}
