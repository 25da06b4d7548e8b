//! What a storage engine owes the services.
//!
//! These traits speak only of our own types: no SQL, no row and no driver error leaves an
//! engine. What a signature cannot say is written on the method and tested by the
//! conformance suite, which every engine runs.

use std::future::Future;
use std::time::Duration;

use crate::{
    AuditPosition, AuditRecord, ContactValue, Detail, Kind, Label, Profile, ProfileDigest, SubjectDigest,
    Timestamp, Token, TokenHash, UsageDelta,
};

/// The engine could not do it. The text names the engine's fault, never a row's content.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The engine failed.
    #[error("store: {0}")]
    Engine(String),
    /// The store was written by a newer version.
    #[error("the store has schema {found}, this version knows {known}: use a newer contactd")]
    SchemaTooNew {
        /// What the store says.
        found: u32,
        /// What this version knows.
        known: u32,
    },
    /// Another process has been writing for too long.
    #[error("the store is busy: another command is writing; try again when it has finished")]
    Busy,
}

/// Shorthand for what an engine's method returns.
pub trait Outcome<T>: Future<Output = Result<T, StoreError>> + Send {}
impl<T, F: Future<Output = Result<T, StoreError>> + Send> Outcome<T> for F {}

/// Everything an engine does.
pub trait Store: Details + Tokens + Suppressions + Usage + AuditIndex {}
impl<S: Details + Tokens + Suppressions + Usage + AuditIndex> Store for S {}

/// Profiles and their details.
pub trait Details: Send + Sync + 'static {
    /// An import under way. Nothing of it is visible, and dropping it undoes it all.
    type Import<'a>: Import
    where
        Self: 'a;

    /// The best personal detail of that kind which has not expired and which `judge`
    /// takes: highest confidence, then newest, then smallest value. Details are offered to
    /// `judge` in that order until it takes one or has had enough.
    ///
    /// Someone about whom there is nothing costs the same read as someone whose detail is not taken: `judge` is then
    /// asked about the value of whoever stands next, and what it says is not heard.
    fn best_personal(
        &self,
        profile: &Profile,
        kind: Kind,
        now: Timestamp,
        judge: impl Fn(&str) -> Verdict + Send + Sync,
    ) -> impl Outcome<Option<ContactValue>>;

    /// Everything held about a profile, expired or not, best first.
    fn list_details(&self, profile: &Profile) -> impl Outcome<Vec<Detail>>;

    /// Removes the details that `remove` picks; says how many went.
    fn remove_details(
        &self,
        profile: &Profile,
        remove: impl Fn(&Detail) -> bool + Send + Sync,
    ) -> impl Outcome<u64>;

    /// Begins an import. Only one can be under way at a time: a second waits, then is
    /// [`StoreError::Busy`].
    fn begin_import(&self, at: Timestamp) -> impl Outcome<Self::Import<'_>>;

    /// Everything that is held, profile by profile in the order of their URLs, as it was at one moment.
    /// `visit` says whether to go on.
    fn visit_all(&self, visit: impl FnMut(&Profile, Vec<Detail>) -> bool + Send) -> impl Outcome<()>;

    /// Every import, oldest first.
    fn list_imports(&self) -> impl Outcome<Vec<PastImport>>;

    /// Withdraws what an import brought in and is still held; says how many details that were. None
    /// where there is no such import, or it was undone before.
    fn undo_import(&self, id: i64, at: Timestamp) -> impl Outcome<Option<u64>>;

    /// The profiles under which a number or an address is held, in order. Reads everything.
    fn find_profiles(&self, kind: Kind, value: &ContactValue) -> impl Outcome<Vec<Profile>>;

    /// Removes details that have expired at `now`, and those that are too old.
    fn sweep(&self, now: Timestamp, aged: Aged<'_>) -> impl Outcome<Swept>;

    /// Where the engine keeps a profile. An import whose profiles come in this order is fastest.
    fn place(profile: &Profile) -> u64;

    /// What is held, by source, kind and label, without reading it all.
    fn totals(&self) -> impl Outcome<Totals>;

    /// Lets go of anything this thread keeps between lookups for speed. After that, a
    /// lookup on this thread sees everything that has been committed.
    fn renew(&self) {}
}

/// An import under way.
pub trait Import: Send {
    /// Says what is to come: about so many profiles, in ascending order of their
    /// [place](Details::place), and the sources that are replaced: what such a source holds and
    /// the import does not put goes. To be said before the first `put`; without it profiles may come
    /// in any order.
    fn expect(&mut self, profiles: u64, replaced: &[String]) -> Result<(), StoreError>;

    /// Adds or updates details of a profile. Tells what each was.
    fn put(&mut self, profile: &Profile, details: &[Detail]) -> Result<PutCounts, StoreError>;

    /// To be called behind the last `put`: takes away what replaced sources held behind it. Says how
    /// much went in all, before it too.
    fn withdraw(&mut self) -> Result<PutCounts, StoreError>;

    /// Takes back those details that this import brought in anew and that `is_out` picks;
    /// counts them and their profiles as new. For what was suppressed while the import ran.
    fn take_back(
        &mut self,
        is_out: impl Fn(&Profile, Kind, &ContactValue) -> bool,
    ) -> Result<PutCounts, StoreError>;

    /// From this import on, details of these sources are removed so long after they were observed, or last imported if that
    /// is not known. To be said before the first `put`: when undated details are said again is kept from then on.
    fn set_max_age(&mut self, sources: &[String], max_age: Duration) -> Result<(), StoreError>;

    /// Makes everything visible at once, and durable. Without it nothing has happened.
    fn commit(self, summary: &ImportSummary) -> Result<(), StoreError>;
}

/// What is said about a value that is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// This one.
    Take,
    /// Not this one; the next best.
    Next,
    /// None of this profile.
    Enough,
}

/// Which details are too old.
#[derive(Clone, Copy, Debug)]
pub enum Aged<'a> {
    /// None.
    Not,
    /// Those of sources that have a largest age, when they have it.
    Policies,
    /// Those that this source said longer ago than this.
    Source(&'a str, Duration),
}

/// What was removed because its time was over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Details that had expired.
    pub expired: u64,
    /// Details that were too old.
    pub aged: u64,
}

/// What became of details that were put.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PutCounts {
    /// One if the profile was not held before this import, and this is its first.
    pub profiles_new: u64,
    /// One if the profile was held before this import, and this is the first new or changed
    /// about it.
    pub profiles_changed: u64,
    /// Details not held before.
    pub new: u64,
    /// Details held with another date, confidence, label, basis or expiry.
    pub changed: u64,
    /// Details held just so.
    pub unchanged: u64,
    /// Details whose source no longer holds them.
    pub withdrawn: u64,
}

/// What is remembered about an import.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportSummary {
    /// The source, or several joined by commas.
    pub source: String,
    /// Rows read.
    pub rows: u64,
    /// Rows rejected.
    pub rejected: u64,
    /// Rows about suppressed people or values.
    pub suppressed: u64,
    /// What became of the details.
    pub counts: PutCounts,
}

/// An import that was carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastImport {
    /// How commands name it.
    pub id: i64,
    /// When it was carried out.
    pub at: Timestamp,
    /// What it did.
    pub summary: ImportSummary,
    /// When it was undone, if it was.
    pub undone_at: Option<Timestamp>,
}

/// How much is held.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Profiles with at least one detail.
    pub profiles: u64,
    /// Details by source, kind and label; none of them zero.
    pub details: Vec<DetailTotal>,
    /// The newest import.
    pub newest_import: Option<PastImport>,
    /// Bytes on disk, by file.
    pub bytes: Vec<(String, u64)>,
}

/// How many details there are of one sort.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are the words of the glossary")]
pub struct DetailTotal {
    pub source: String,
    pub kind: Kind,
    pub label: Label,
    pub count: u64,
}

/// Tokens.
pub trait Tokens: Send + Sync + 'static {
    /// Keeps a new token. Committed and synced when this returns.
    fn create_token(&self, hash: &TokenHash, token: &Token) -> impl Outcome<()>;

    /// Every token, oldest first, also those that have ended.
    fn list_tokens(&self) -> impl Outcome<Vec<(TokenHash, Token)>>;

    /// Ends a token now. None where there is no such token; ending it again changes
    /// nothing. Committed and synced when this returns.
    fn revoke_token(&self, id: &str, at: Timestamp) -> impl Outcome<Option<Token>>;

    /// Keeps a new token in place of `old`, which ends at `old_ends_at` or earlier. Both or
    /// neither, committed and synced when this returns. False where `old` is not there or revoked.
    fn rotate_token(
        &self,
        old: &str,
        old_ends_at: Timestamp,
        hash: &TokenHash,
        token: &Token,
    ) -> impl Outcome<bool>;
}

/// Suppressions.
pub trait Suppressions: Send + Sync + 'static {
    /// Committed and synced when this returns. Says how many were new; suppressing twice
    /// is not an error.
    fn suppress(&self, subjects: &[SubjectDigest], at: Timestamp) -> impl Outcome<u64>;

    /// Takes suppressions back. Says how many there were.
    fn unsuppress(&self, subjects: &[SubjectDigest]) -> impl Outcome<u64>;

    /// Since when one of these has been suppressed; none where none of them is.
    fn find_suppression(&self, subjects: &[SubjectDigest]) -> impl Outcome<Option<Timestamp>>;

    /// Every suppression.
    fn list_suppressions(&self) -> impl Outcome<Vec<SubjectDigest>>;
}

/// What the journal says, found quickly. All of it can be made anew from the journal.
pub trait AuditIndex: Send + Sync + 'static {
    /// How far the journal has been indexed.
    fn audit_position(&self) -> impl Outcome<AuditPosition>;

    /// Adds what was read between two positions, if the first is still how far it had been: each line once, whoever
    /// else does the same. Whether it was added.
    ///
    /// `undisclosed` are earlier or new lines, from and through, that say more than happened: they count as refused.
    fn index_audit(
        &self,
        records: &[AuditRecord],
        undisclosed: &[(u64, u64)],
        from: AuditPosition,
        to: AuditPosition,
    ) -> impl Outcome<bool>;

    /// Forgets everything, to begin anew. What tokens did before that day is kept, because the journal no longer says it.
    fn reset_audit_index(&self, first_day: i64) -> impl Outcome<()>;

    /// Forgets the requests up to this line. What tokens did in all is kept.
    fn forget_audit(&self, through: u64) -> impl Outcome<()>;

    /// The requests that match, oldest first. `visit` says whether to go on.
    fn visit_audit(
        &self,
        filter: &AuditFilter,
        visit: impl FnMut(AuditRecord) -> bool + Send,
    ) -> impl Outcome<()>;

    /// What each token did on each UTC day, oldest day first.
    fn audit_usage(&self) -> impl Outcome<Vec<AuditUsage>>;
}

/// Which requests are meant: those for which all of this is so.
#[derive(Clone, Debug, Default)]
pub struct AuditFilter {
    /// Of one of these tokens, by id.
    pub tokens: Option<Vec<String>>,
    /// About a profile with one of these digests.
    pub profiles: Option<Vec<ProfileDigest>>,
    /// Then or later.
    pub since: Option<Timestamp>,
    /// Before then.
    pub until: Option<Timestamp>,
    /// With this outcome.
    pub outcome: Option<String>,
}

impl AuditFilter {
    /// Whether a request is meant.
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

/// What tokens did, by UTC day.
pub trait Usage: Send + Sync + 'static {
    /// Adds to the counts of the day that `at` is in.
    fn record_usage(&self, usage: &[UsageDelta], at: Timestamp) -> impl Outcome<()>;

    /// Hits of a token from the beginning of a UTC day on.
    fn hits_since(&self, token: &str, day: i64) -> impl Outcome<u64>;
}
