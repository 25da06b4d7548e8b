//! Imports: many details at once, all or nothing.

use std::time::Duration;

use crate::store::{StoreError, StoreFuture};
use crate::{ContactValue, Kind, Profile, Record, Timestamp};

/// Loading details, and what is remembered about it.
pub trait Imports: Send + Sync + 'static {
    /// An import in progress. Nothing of it is visible, and dropping it undoes it all.
    type Import<'a>: Import
    where
        Self: 'a;

    /// The key by which the records of an import are sorted: equal for equal profiles, and the same for as
    /// long as the store exists. An engine that does not care about order returns a constant.
    fn sort_key(&self, profile: &Profile) -> u64;

    /// Begins an import. Only one can be in progress at a time: a second one is [`StoreError::Busy`].
    fn begin_import(&self, plan: &ImportPlan) -> impl StoreFuture<Self::Import<'_>>;

    /// Every import, oldest first.
    fn list_imports(&self) -> impl StoreFuture<Vec<PastImport>>;

    /// Removes the details that an import added and that are still held; returns how many. None if there is
    /// no such import or it was undone before.
    fn undo_import(&self, id: i64, at: Timestamp) -> impl StoreFuture<Option<u64>>;
}

/// What an import is going to do.
#[derive(Clone, Debug)]
pub struct ImportPlan {
    /// When it takes place.
    pub at: Timestamp,
    /// About how many records will be put.
    pub records: u64,
    /// Sources that are replaced: what they hold and the import does not put is removed.
    pub replaced: Vec<String>,
    /// Sources that get a largest age: from now on their details are removed this long after they were
    /// observed, or last imported if that is not known.
    pub max_age: Option<(Vec<String>, Duration)>,
}

impl ImportPlan {
    /// An import of about this many records that replaces nothing.
    pub const fn of(records: u64, at: Timestamp) -> Self {
        Self { at, records, replaced: Vec::new(), max_age: None }
    }
}

/// One value of one profile.
pub type ValueOfProfile = (Profile, Kind, ContactValue);

/// An import in progress: any number of `put`, then `finish`, then perhaps `take_back`, then `commit`.
pub trait Import: Send {
    /// Adds or updates details. Records come in ascending order of [`Imports::sort_key`], across all batches;
    /// the records of one profile come one after the other. Of the same detail given twice, the last counts.
    fn put(&mut self, batch: Vec<Record>) -> impl StoreFuture<()>;

    /// Completes the import: call it after the last `put`. Removes what replaced sources hold and the import
    /// did not put.
    fn finish(&mut self) -> impl StoreFuture<()>;

    /// Takes back those of these values that this import added; what it only updated stays. For people who
    /// opted out while the import ran.
    fn take_back(&mut self, values: &[ValueOfProfile]) -> impl StoreFuture<()>;

    /// What the import has done. Exact after `finish`.
    fn counts(&self) -> PutCounts;

    /// Makes everything visible at once, and durable; returns the number of the import. Without it nothing
    /// has happened.
    fn commit(self, summary: &ImportSummary) -> impl Future<Output = Result<i64, StoreError>> + Send;
}

/// What became of the details of an import.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PutCounts {
    /// Profiles not held before this import.
    pub profiles_new: u64,
    /// Profiles held before this import of which it added, updated or removed something.
    pub profiles_changed: u64,
    /// Details not held before.
    pub new: u64,
    /// Details held with another date, confidence, label, basis or expiry.
    pub changed: u64,
    /// Details held exactly like this.
    pub unchanged: u64,
    /// Details removed because their replaced source no longer holds them.
    pub withdrawn: u64,
    /// Details taken back: their person, number or address opted out while the import ran.
    pub taken_back: u64,
}

/// What is remembered about an import.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportSummary {
    /// The source, or several joined by commas.
    pub source: String,
    /// Who ran it; none for imports made by versions that did not record it.
    pub actor: Option<String>,
    /// Rows read.
    pub rows: u64,
    /// Rows rejected.
    pub rejected: u64,
    /// Details of suppressed people, and suppressed values, that were skipped.
    pub suppressed: u64,
    /// What became of the details.
    pub counts: PutCounts,
}

/// An import that was carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastImport {
    /// Its number, by which commands refer to it.
    pub id: i64,
    /// When it was carried out.
    pub at: Timestamp,
    /// What it did.
    pub summary: ImportSummary,
    /// When it was undone, if it was.
    pub undone_at: Option<Timestamp>,
}
