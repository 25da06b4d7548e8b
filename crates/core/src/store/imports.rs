//! Importing: many details at once, all or nothing.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::store::merge::Merging;
use crate::store::place::first_id;
use crate::store::{Noted, StoreError, Stored};
use crate::{ContactValue, Detail, Kind, Profile, Record, Timestamp};

/// Importing of details, and the records of past imports.
#[async_trait]
pub trait Importing: Send + Sync + 'static {
    /// The sort key for the records of an import: equal for equal profiles, and the same as long as the store
    /// exists. It is the order in which engines store details.
    fn sort_key(&self, profile: &Profile) -> u64 {
        first_id(profile, Kind::Phone).cast_unsigned()
    }

    /// Begins an import. Nothing of it is visible yet; dropping it discards all of it. Only one can be in progress at a time; for a second one this is [`StoreError::Busy`].
    async fn begin_import(&self, plan: &ImportPlan) -> Stored<Box<dyn Import + '_>>;

    /// All imports, oldest first.
    async fn list_imports(&self) -> Stored<Vec<PastImport>>;

    /// Undoes an import, whose sources must not have a later one. Removes the details that it added and that are
    /// still held, and puts back those that it changed and withdrew, except what was removed since or has expired
    /// at `at`.
    async fn undo_import(&self, id: i64, at: Timestamp, entry: Noted<'_>) -> Stored<Undo>;

    /// What is kept of a profile so that imports can be undone. [`Details::remove_details`] and
    /// [`Details::sweep`] remove it too.
    ///
    /// [`Details::remove_details`]: crate::store::Details::remove_details
    /// [`Details::sweep`]: crate::store::Details::sweep
    async fn list_former(&self, profile: &Profile) -> Stored<Vec<FormerDetail>>;

    /// How much is kept so that imports can be undone. May read all of it.
    async fn former_total(&self) -> Stored<FormerTotal>;
}

/// What came of undoing an import. Unless it is done, nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undo {
    /// It is undone.
    Done(Undone),
    /// There is no such import.
    Unknown,
    /// It was undone before.
    Already,
    /// This later import has a source in common with it and has to be undone first.
    Later(i64),
    /// What it changed or withdrew is not kept any more.
    NotKept,
}

/// What undoing an import did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Undone {
    /// Details that it had added and that were removed.
    pub removed: u64,
    /// Details that it had changed or withdrawn and that are as before.
    pub restored: u64,
}

/// A detail as it was before an import changed or withdrew it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormerDetail {
    /// The import.
    pub import: i64,
    /// When that was.
    pub imported_at: Timestamp,
    /// The detail.
    pub detail: Detail,
}

/// How much is kept so that imports can be undone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct FormerTotal {
    /// How many details.
    pub details: u64,
    /// About how much space they take.
    pub bytes: u64,
}

/// What an import will do.
#[derive(Clone, Debug)]
pub struct ImportPlan {
    /// The time of the import.
    pub at: Timestamp,
    /// About how many records will be put.
    pub records: u64,
    /// Sources to replace: their details that the import does not put are removed.
    pub replaced: Vec<String>,
    /// Sources that get a maximum age: from now on their details are removed this long after they were observed
    /// or, if that is unknown, last imported.
    pub max_age: Option<(Vec<String>, Duration)>,
    /// Whether to keep what the import changes and withdraws, so that it can be undone.
    pub keep_former: bool,
    /// Whether it is only to be tried: it will not be committed, so an engine need not write it.
    pub is_trial: bool,
}

impl ImportPlan {
    /// An import of about this many records that replaces nothing.
    pub const fn of(records: u64, at: Timestamp) -> Self {
        Self { at, records, replaced: Vec::new(), max_age: None, keep_former: true, is_trial: false }
    }
}

/// The most values of one kind that a source may have for one profile. Nobody has more: a file with more is a mistake, or somebody
/// tries which of them are on file.
pub const MOST_VALUES: usize = 20;

/// A source that would have more than [`MOST_VALUES`] of a kind for a profile, so that some were refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crowd {
    /// The profile.
    pub profile: Profile,
    /// The source.
    pub source: String,
}

/// Which of the details that a profile is given are too many, if it holds `held`: what is held counts first, then what is given,
/// in order. Empty if none are. Takes time in proportion to the number of details.
pub fn surplus<'a>(given: &'a [Detail], held: impl Iterator<Item = &'a Detail>) -> Vec<bool> {
    let held: Vec<&Detail> = held.collect();
    if given.len() + held.len() <= MOST_VALUES {
        return Vec::new();
    }
    let mut by_source: HashMap<(&str, Kind), HashSet<Cow<'_, str>>> = HashMap::new();
    let mut is_too_much = |Detail { kind, value, source, .. }: &'a Detail, most: usize| {
        let values = by_source.entry((source.as_str(), *kind)).or_default();
        let value = ContactValue::comparable(*kind, value.expose());
        let is_too_much = values.len() >= most && !values.contains(&value);
        if !is_too_much {
            values.insert(value);
        }
        is_too_much
    };
    for detail in held {
        is_too_much(detail, usize::MAX);
    }
    let surplus: Vec<bool> = given.iter().map(|detail| is_too_much(detail, MOST_VALUES)).collect();
    if surplus.contains(&true) { surplus } else { Vec::new() }
}

/// One value of one profile.
pub type ValueOfProfile = (Profile, Kind, ContactValue);

/// An import in progress. Call `put` any number of times, then `finish`, then `take_back` if needed, then
/// `commit`.
#[async_trait]
pub trait Import: Send {
    /// Adds or updates details. Records must be in ascending order of [`Importing::sort_key`] across all batches,
    /// with the records of one profile next to each other. If a detail is given twice, the last one wins. A source has at
    /// most [`MOST_VALUES`] of a kind for a profile: what would be more is refused, in the order in which it is given.
    async fn put(&mut self, batch: Vec<Record>) -> Stored<()>;

    /// Completes the import after the last `put`. Removes the details of replaced sources that the import did not
    /// put.
    async fn finish(&mut self) -> Stored<()>;

    /// Removes those of these values that this import added; values that it only updated stay. For people who
    /// opted out while the import ran.
    async fn take_back(&mut self, values: &[ValueOfProfile]) -> Stored<()>;

    /// What the import has done so far. Exact after `finish`.
    fn merging(&self) -> &Merging;

    /// What it has done so far, in numbers.
    fn counts(&self) -> PutCounts {
        self.merging().counts
    }

    /// The sources that have too much for a profile: the first of them.
    fn crowds(&self) -> &[Crowd] {
        &self.merging().crowds
    }

    /// For each replaced source: how much it held before the import, and how much of that was removed.
    fn withdrawn(&self) -> Vec<WithdrawnFrom> {
        self.merging().replaced.clone()
    }

    /// Makes everything visible at once, and durable; returns the number of the import. Without it nothing
    /// changes.
    async fn commit(self: Box<Self>, summary: &ImportSummary, entry: Noted<'_>) -> Stored<i64>;
}

/// What an import did, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PutCounts {
    /// Profiles not held before this import.
    pub profiles_new: u64,
    /// Profiles held before and after this import in which it added, updated or removed details.
    pub profiles_changed: u64,
    /// Details not held before.
    pub new: u64,
    /// Details that had another date, confidence, label, basis or expiry before.
    pub changed: u64,
    /// Details that were already held exactly like this.
    pub unchanged: u64,
    /// Details removed because their source was replaced and no longer has them.
    pub withdrawn: u64,
    /// Details removed again because their person, number or address opted out while the import ran. Not stored.
    #[serde(skip)]
    pub taken_back: u64,
    /// Details refused because their source has too many of their kind for one profile. Not stored.
    #[serde(skip)]
    pub refused: u64,
}

/// How much a replaced source lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WithdrawnFrom {
    /// The source.
    pub source: String,
    /// Details that it held before the import.
    pub held: u64,
    /// How many of them were removed.
    pub withdrawn: u64,
}

/// The stored record of an import, which an engine keeps as JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportSummary {
    /// The source, or several joined by commas.
    pub source: String,
    /// Who ran it; `None` for imports of versions that did not record it.
    pub actor: Option<String>,
    /// The names of the files, without their directories.
    pub files: Vec<String>,
    /// Rows read.
    pub rows: u64,
    /// Rows rejected.
    pub rejected: u64,
    /// Details of suppressed people, and suppressed values, that were skipped.
    pub suppressed: u64,
    /// What it did with the details.
    pub counts: PutCounts,
}

impl ImportSummary {
    /// What an engine stores.
    pub fn to_json(&self) -> Stored<String> {
        let failed = |_| StoreError::Engine("the record of an import cannot be made".to_owned());
        serde_json::to_string(self).map_err(failed)
    }

    /// The counts for the journal.
    pub const fn counted(&self) -> [(&'static str, u64); 5] {
        let PutCounts { new, changed, withdrawn, .. } = self.counts;
        let (rows, rejected) = (self.rows, self.rejected);
        [("rows", rows), ("rejected", rejected), ("new", new), ("changed", changed), ("withdrawn", withdrawn)]
    }
}

/// A past import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastImport {
    /// Its number, which commands use to refer to it.
    pub id: i64,
    /// When it ran.
    pub at: Timestamp,
    /// What it did.
    pub summary: ImportSummary,
    /// When it was undone, if it was.
    pub undone_at: Option<Timestamp>,
    /// Whether everything that it changed or withdrew is kept, so that it can be undone.
    pub is_kept: bool,
}

impl PastImport {
    /// An import as an engine keeps it: its times, whether what it changed or withdrew is kept, and its summary as JSON.
    pub fn from_row(
        id: i64,
        (at, undone_at): (i64, Option<i64>),
        is_kept: bool,
        summary: &str,
    ) -> Stored<Self> {
        let damaged = |_| StoreError::Damaged("the record of an import cannot be read".to_owned());
        let summary: ImportSummary = serde_json::from_str(summary).map_err(damaged)?;
        let is_whole = is_kept || summary.counts.changed + summary.counts.withdrawn == 0;
        let undone_at = undone_at.map(Timestamp::from_millis);
        let (at, is_kept) = (Timestamp::from_millis(at), undone_at.is_none() && is_whole);
        Ok(Self { id, at, summary, undone_at, is_kept })
    }

    /// Why it cannot be undone, if it cannot. `later` is the last import that has a source in common with it, and is not undone.
    pub const fn obstacle(&self, later: Option<i64>) -> Option<Undo> {
        match (self.undone_at, later) {
            (Some(_), _) => Some(Undo::Already),
            (None, Some(later)) => Some(Undo::Later(later)),
            (None, None) if !self.is_kept => Some(Undo::NotKept),
            (None, None) => None,
        }
    }
}
