//! The services: what an operator or a privacy officer can do, independent of the interface they use.
//!
//! Commands, the admin API and the console call these, so that each rule is written once. Methods that they call
//! take an [`Actor`]. A method that changes what lookups see returns [`Changed`]:
//! the change is committed, and the result says whether it is in force.

mod audits;
mod changed;
pub mod defaults;
mod health;
mod imports;
mod opt_outs;
mod subjects;
mod tokens;
mod users;
pub mod views;
mod waiting;

use std::sync::Arc;
use std::time::Duration;

pub use audits::{
    AuditError, AuditPlace, AuditQuery, Audits, Days, DaysError, FollowNote, FollowPlace, Follower,
    IndexState, JournalState, LastVerification, MOST_DAYS, NodeName, OfNode, ReadFrom, RootList, Shipped,
    Uncounted, VerifiedCopy, VerifiedJournals, VerifyQuery, by_token, hooks_found, unknown_node,
};
pub use changed::{Changed, Committed};
pub use contactd_import::{
    Encoding, Field, FileColumn, FileError, FileShape, Files, InputRead, NotLoaded, Preview, PreviewedRow,
    ReadOptions, RejectedRow, SubjectList, UploadedFile, Verdict, Warning,
};
pub use contactd_journal::{
    JournalError, JournalFault, JournalHead, Lines, NotedHead, ProofMade, RootSource, Verification,
};
pub use health::{BackupError, BackupMade, Health, HealthError, HeldBySource, Overview, clock_finding};
pub use imports::{
    Clearing, Compared, ImportError, ImportOptions, ImportReport, Imports, KnownSource, MaxRejects,
    RefusedProfile, RememberedReading, SimilarSource, SweepReport, parse_share, parse_source,
};
pub use opt_outs::{OnFile, OptOutError, OptOutOptions, OptOutOutcome, OptOuts, OptedOut, Withdrawn};
pub use subjects::{
    CorrectionError, EraseError, EraseOptions, Erased, Found, FoundPeople, MOST_SEARCHED, SubjectError,
    Subjects, WrongDetail,
};
pub use tokens::{IssuedToken, NewToken, TokenError, TokenIssuer};
pub use users::{IssuedAdminToken, LoginError, NewUser, ReadSecondFactorKey, TotpSetup, UserError, Users};

use contactd_core::InForce;
use contactd_core::store::{Machine, Store, StoreError, Stored};
use contactd_core::{
    Actor, AdminEntry, Affected, Clock, DigestKeys, MOST_SUBJECTS, Networks, NotRecorded, OnRecord, Profile,
    RefreshError, Subject, SuppressionList, Timestamp,
};
use contactd_import::UploadedFiles;
use contactd_journal::JournalReader;
use futures_util::future::join;

/// More profiles than this are opted out or erased by a number or an address only if that is approved.
pub const ASK_ABOVE_PROFILES: usize = 10;

/// Whether many people at once may be opted out or erased by a number or an address.
#[derive(Clone, Copy, Debug, Default)]
pub enum Approval {
    /// Nobody was asked: only up to [`ASK_ABOVE_PROFILES`] profiles.
    #[default]
    NotGiven,
    /// Whoever asks has seen this many profiles and confirmed that number.
    Seen(usize),
    /// Whoever is asked about these profiles decides, if they are more than [`ASK_ABOVE_PROFILES`].
    Ask(fn(&[Profile]) -> bool),
    /// However many they are.
    Given,
}

impl Approval {
    /// Whether it covers these profiles.
    pub(crate) fn covers(self, profiles: &[Profile]) -> bool {
        let is_few = profiles.len() <= ASK_ABOVE_PROFILES;
        match self {
            Self::NotGiven => is_few,
            Self::Seen(count) => is_few || count == profiles.len(),
            Self::Ask(ask) => is_few || ask(profiles),
            Self::Given => true,
        }
    }
}

/// Removes what interrupted backups left behind. False while a backup is in progress.
pub type RemoveAbandoned = Box<dyn Fn() -> Result<bool, BackupError> + Send + Sync>;

/// What the services need.
pub struct Parts {
    /// The store.
    pub store: Arc<dyn Store>,
    /// This machine, if it has a node or an embedded store.
    pub machine: Option<Machine>,
    /// The digest keys.
    pub keys: DigestKeys,
    /// Reads the key of second factors.
    pub second_factor_key: ReadSecondFactorKey,
    /// Which profile URLs are accepted.
    pub networks: Networks,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Puts changes in force.
    pub in_force: Arc<dyn InForce>,
    /// Puts actions on record.
    pub on_record: Arc<dyn OnRecord>,
    /// This node's journal.
    pub journal: JournalReader,
    /// Removes what interrupted backups left behind. False while a backup is in progress.
    pub remove_abandoned_backups: RemoveAbandoned,
    /// Reads files that are uploaded.
    pub files: UploadedFiles,
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
            tokens: TokenIssuer { parts: Arc::clone(&parts) },
            users: Users { parts: Arc::clone(&parts) },
            opt_outs: OptOuts { parts: Arc::clone(&parts) },
            subjects: Subjects { parts: Arc::clone(&parts) },
            imports: Imports { parts: Arc::clone(&parts) },
            audits: Audits::new(Arc::clone(&parts)),
            health: Health { parts },
        }
    }
}

impl Parts {
    /// The id of this machine's node; empty if it has none.
    pub(crate) fn node(&self) -> &str {
        self.machine.as_ref().map_or("", Machine::node)
    }

    /// What has ended by now may be removed for good if it had ended by this time.
    pub(crate) async fn removal_time(&self) -> Stored<Timestamp> {
        self.store.removal_time(self.clock.now()).await
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

    /// Announces a committed change, and puts the entries on record that were stored with it. Neither waits for the other.
    pub(crate) async fn announce<T>(&self, done: T, affected: Affected, stored: &[&str]) -> Changed<T> {
        let (announced, recorded) =
            join(self.in_force.announce(affected), self.on_record.collect(stored)).await;
        let (confirmed, notes) = match announced {
            Ok(notes) => (Ok(()), notes),
            Err(error) => (Err(error), Vec::new()),
        };
        Changed { done, confirmed, notes, recorded }
    }

    /// Stores suppressions, in force once they are announced. Returns how many are new. An opt-out, an erasure or a revocation does
    /// not fail because its entry cannot be stored: that it is not on record shows when it is announced.
    pub(crate) async fn suppress<'a>(
        &self,
        subjects: impl IntoIterator<Item = Subject<'a>>,
        entry: &AdminEntry,
    ) -> Result<u64, StoreError> {
        let digests: Vec<_> = subjects.into_iter().filter_map(|subject| self.keys.digest(subject)).collect();
        let now = self.clock.now();
        match self.store.suppress(&digests, now, Some(entry)).await {
            Err(StoreError::NotNoted) => self.store.suppress(&digests, now, None).await,
            suppressed => suppressed,
        }
    }

    /// Puts a committed change on record that lookups do not see, so that it is in force already.
    pub(crate) async fn recorded<T>(&self, done: T, stored: &[&str]) -> Changed<T> {
        Changed { recorded: self.on_record.collect(stored).await, ..Changed::nothing(done) }
    }

    /// Puts a read of personal data on record, before it happens.
    pub(crate) async fn record_read(&self, entry: &AdminEntry) -> Result<(), NotRecorded> {
        required(self.on_record.record(entry).await)
    }

    /// Whether what was not found since `server` was the mark of the store is not there. If not, look again: a server that has been replaced
    /// may not know what the other one does.
    pub(crate) async fn is_missing_for_certain(&self, server: u64) -> Result<bool, StoreError> {
        Ok(self.store.confirm_server().await? == server)
    }

    /// Notes that an action failed. That it failed is more important than that this could not be noted.
    pub(crate) async fn note_failure(&self, entry: &AdminEntry) {
        match self.store.add_entry(&entry.failed()).await {
            Ok(()) => drop(self.on_record.collect(&[]).await),
            Err(error) => tracing::warn!(%error, "a failed action could not be noted for the journal"),
        }
    }

    /// Notes an action that changed nothing.
    pub(crate) async fn note_nothing_changed(&self, entry: &AdminEntry) -> Result<(), StoreError> {
        self.store.add_entry(entry).await
    }

    /// The suppressions that are currently in the store.
    pub(crate) async fn suppressions(&self) -> Result<SuppressionList, RefreshError> {
        let list = SuppressionList::new(self.keys.clone());
        list.replace(self.store.list_suppressions().await?)?;
        Ok(list)
    }
}

/// Reads may go on without a record only if the operator has switched the journal off.
pub(crate) fn required(recorded: Result<(), NotRecorded>) -> Result<(), NotRecorded> {
    match recorded {
        Err(NotRecorded::Off) => Ok(()),
        recorded => recorded,
    }
}
