//! The services: what an operator or a privacy officer can do, independent of the interface they use.
//!
//! Commands, the admin API and the console call these, so that each rule is written once. Methods that they call
//! take an [`Actor`]. A method that changes what lookups see returns [`Changed`]:
//! the change is committed, and the result says whether it is in force.

mod audits;
mod health;
mod imports;
mod opt_outs;
mod subjects;
mod tokens;
mod users;
mod waiting;

use std::sync::Arc;
use std::time::Duration;

pub use audits::{
    AuditError, AuditPage, AuditPlace, AuditQuery, Audits, DayLookups, Days, DaysError, IndexState,
    JournalState, LastVerification, MOST_DAYS, NamedUsage, NodeName, OfNode, ReadFrom, Recipient, RootList,
    Shipped, ShownEvent, TokenLookups, VerifiedCopy, VerifiedJournals, VerifyQuery, by_token,
};
pub use health::{
    BackupError, BackupMade, BackupTarget, Backups, Finding, Health, HealthError, HeldBySource, Making,
    Overview, Severity, Stats, clock_finding,
};
pub use imports::{
    Clearing, FileColumn, FileShape, ImportError, ImportOptions, ImportReport, Imports, InputRead, Line,
    ListedImport, MaxRejects, NotALimit, NotAShare, NotASource, NotLoaded, PreviewedRow, ReadOptions,
    ReadRows, RecordBatch, RecordFiles, RecordSource, RefusedProfile, RejectedRow, RowChecks, RowsError,
    SweepReport, UploadedFile, Verdict, Warning, parse_share, parse_source,
};
pub use opt_outs::{Holder, OnFile, OptOutError, OptOutOptions, OptOuts, OptedOut};
pub use subjects::{
    AccessReport, CorrectionError, Disclosure, DisclosuresOf, EraseError, EraseOptions, Erased,
    ErasedProfile, Found, HeldDetail, MOST_SEARCHED, ReceivedBy, ReceivedDetail, SharedValue, SubjectError,
    Subjects, SuppressionState, WrongDetail,
};
pub use tokens::{IssuedToken, NewToken, TokenError, TokenIssuer};
pub use users::{IssuedAdminToken, LoginError, NewUser, TotpSetup, UserError, Users};

use crate::in_force::{Announcer, InForce};
use crate::on_record;
use crate::store::{Machine, Store, StoreError};
use crate::{
    Actor, AdminEntry, Affected, Changed, Clock, DigestKeys, JournalFiles, MOST_SUBJECTS, Networks,
    NotRecorded, OnRecord, Profile, Subject, SuppressionList, UnknownKey,
};

/// Up to this many profiles are opted out or erased by a number or an address without asking.
pub const FEW: usize = 10;

/// Asks whether to go on with more than [`FEW`] profiles.
pub type Approve<'a> = &'a (dyn Fn(&[Profile]) -> bool + Sync);

/// What the services need.
pub struct Parts {
    /// The store.
    pub store: Arc<dyn Store>,
    /// This machine, if it has a node or an embedded store.
    pub machine: Option<Machine>,
    /// The digest keys.
    pub keys: DigestKeys,
    /// Which profile URLs are accepted.
    pub networks: Networks,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Puts changes in force.
    pub in_force: Arc<dyn InForce>,
    /// Puts actions on record.
    pub on_record: Arc<dyn OnRecord>,
    /// This node's journal.
    pub journal: Arc<dyn JournalFiles>,
    /// Makes backups.
    pub backups: Arc<dyn Backups>,
    /// Reads files that are uploaded.
    pub files: Arc<dyn RecordFiles>,
    /// How long imports can be undone: what they changed and withdrew is kept for this long.
    pub undo_for: Duration,
}

/// All services for one store.
pub struct Services {
    /// Tokens.
    pub tokens: TokenIssuer,
    /// Users of the console, and tokens of the admin API.
    pub users: Users,
    /// Opt-outs.
    pub opt_outs: OptOuts,
    /// Individual people: access reports, corrections, erasure.
    pub subjects: Subjects,
    /// Imports and retention.
    pub imports: Imports,
    /// The journal.
    pub audits: Audits,
    /// The state of the installation.
    pub health: Health,
}

impl Services {
    /// Creates the services from these parts.
    pub fn new(parts: Parts) -> Self {
        let parts = Arc::new(parts);
        Self {
            tokens: TokenIssuer::new(Arc::clone(&parts)),
            users: Users::new(Arc::clone(&parts)),
            opt_outs: OptOuts::new(Arc::clone(&parts)),
            subjects: Subjects::new(Arc::clone(&parts)),
            imports: Imports::new(Arc::clone(&parts)),
            audits: Audits::new(Arc::clone(&parts)),
            health: Health::new(parts),
        }
    }
}

/// Why the suppressions could not be read.
#[derive(Debug, thiserror::Error)]
pub enum SuppressionsError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A suppression could not be recognised.
    #[error(transparent)]
    Key(#[from] UnknownKey),
}

impl Parts {
    /// The id of this machine's node; empty if it has none.
    pub(crate) fn node(&self) -> &str {
        self.machine.as_ref().map_or("", Machine::node)
    }

    /// The entry for an action that is asked for now.
    pub(crate) fn entry(&self, actor: &Actor, operation: &'static str) -> AdminEntry {
        AdminEntry::new(actor, operation, self.clock.now())
    }

    /// The entry for an action that is asked for now, with the names of its subjects.
    pub(crate) fn entry_about<'a>(
        &self,
        actor: &Actor,
        operation: &'static str,
        subjects: impl IntoIterator<Item = Subject<'a>>,
    ) -> AdminEntry {
        let named = subjects.into_iter().filter_map(|subject| self.keys.named(subject));
        AdminEntry { subjects: named.take(MOST_SUBJECTS).collect(), ..self.entry(actor, operation) }
    }

    pub(crate) fn announcer(&self) -> Announcer {
        Announcer { in_force: Arc::clone(&self.in_force), on_record: Arc::clone(&self.on_record) }
    }

    /// Announces a committed change.
    pub(crate) async fn announce<T>(&self, done: T, affected: Affected) -> Changed<T> {
        self.announcer().announce(done, affected).await
    }

    /// Puts a committed change on record that lookups do not see, so that it is in force already.
    pub(crate) async fn recorded<T>(&self, done: T) -> Changed<T> {
        Changed { recorded: self.on_record.collect().await, ..Changed::nothing(done) }
    }

    /// Puts a read of personal data on record, before it happens.
    pub(crate) async fn record_read(&self, entry: &AdminEntry) -> Result<(), NotRecorded> {
        on_record::required(self.on_record.record(entry).await)
    }

    /// Notes that an action failed. That it failed is more important than that this could not be noted.
    pub(crate) async fn note_failure(&self, entry: &AdminEntry) {
        match self.store.add_entry(&entry.failed()).await {
            Ok(()) => drop(self.on_record.collect().await),
            Err(error) => tracing::warn!(%error, "a failed action could not be noted for the journal"),
        }
    }

    /// Notes an action that changed nothing.
    pub(crate) async fn note_nothing_changed(&self, entry: &AdminEntry) -> Result<(), StoreError> {
        self.store.add_entry(entry).await
    }

    /// The suppressions that are currently in the store.
    pub(crate) async fn suppressions(&self) -> Result<SuppressionList, SuppressionsError> {
        let list = SuppressionList::new(self.keys.clone());
        list.replace(self.store.list_suppressions().await?)?;
        Ok(list)
    }
}
