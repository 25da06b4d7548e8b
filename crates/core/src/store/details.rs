//! Profiles and their details.

use std::time::Duration;

use async_trait::async_trait;

use crate::store::{Noted, PastImport, SourceRetention, Stored};
use crate::{ContactValue, Detail, Kind, Label, Profile, SlugParts, Timestamp};

/// Is given a profile and its details, and returns whether to continue.
pub type VisitDetails<'a> = &'a mut (dyn for<'p> FnMut(&'p Profile, Vec<Detail>) -> bool + Send);

/// Profiles and their details.
#[async_trait]
pub trait Details: Send + Sync + 'static {
    /// All details of a profile, expired or not: phone numbers before e-mail addresses, personal before work,
    /// then best first.
    async fn list_details(&self, profile: &Profile) -> Stored<Vec<Detail>>;

    /// Removes the details of a profile that `which` selects, also from what is kept so that imports can be undone;
    /// returns how many were held or kept. Committed and synced when this returns.
    async fn remove_details(&self, profile: &Profile, which: &DetailFilter, entry: Noted<'_>) -> Stored<u64>;

    /// Visits all details in a consistent snapshot: profile by profile, ordered by URL. `visit` returns whether
    /// to continue.
    async fn visit_all(&self, visit: VisitDetails<'_>) -> Stored<()>;

    /// The profiles that have this number or address, or of which it is kept so that imports can be undone, ordered
    /// by URL. E-mail addresses are compared ignoring case. Reads all details.
    async fn find_profiles(&self, kind: Kind, value: &ContactValue) -> Stored<Vec<Profile>> {
        let values = [(kind, value.clone())];
        let found = self.find_holders(&values).await?;
        let mut found: Vec<Profile> = found.into_iter().map(|(profile, _)| profile).collect();
        found.dedup();
        Ok(found)
    }

    /// Like [`find_profiles`](Self::find_profiles) for many numbers and addresses at once. Each profile comes with the
    /// index of a value that it has, once for each.
    async fn find_holders(&self, values: &[(Kind, ContactValue)]) -> Stored<Vec<(Profile, usize)>>;

    /// The profiles whose slugs have all these parts and that have details, or of which some are kept so that imports can be undone,
    /// ordered by URL. Reads up to so many details, and up to so many that are kept, and stops at that many profiles.
    async fn find_by_slug(&self, parts: &SlugParts, limits: ScanLimits) -> Stored<Vec<Profile>>;

    /// For each profile, whether anything is held, or kept so that imports can be undone.
    async fn are_held(&self, profiles: &[Profile]) -> Stored<Vec<bool>>;

    /// Until when something must have ended, if it is to be removed for good at `now` by the clock of this machine. An engine that
    /// several machines share has a clock too, and gives the earlier time: one wrong clock removes nothing too early.
    async fn removal_time(&self, now: Timestamp) -> Stored<Timestamp> {
        Ok(now)
    }

    /// Removes details that have expired and details that are too old.
    async fn sweep(&self, plan: SweepPlan<'_>, entry: Noted<'_>) -> Stored<Swept>;

    /// Every source that holds details or has a maximum age, by name, and which of its details end next. Reads all
    /// details that can end.
    async fn list_retention(&self, now: Timestamp) -> Stored<Vec<SourceRetention>>;

    /// How many details are held, by source, kind and label, without reading them all.
    async fn totals(&self) -> Stored<Totals>;
}

/// Where a search that has no index ends.
#[derive(Clone, Copy, Debug)]
pub struct ScanLimits {
    /// After this many profiles are found.
    pub profiles: usize,
    /// After this many details are read.
    pub details: u32,
}

/// Selects details of a profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DetailFilter {
    /// Only these numbers and addresses, compared exactly.
    pub values: Option<Vec<(Kind, ContactValue)>>,
    /// Only details of this source.
    pub source: Option<String>,
}

impl DetailFilter {
    /// Selects all details of the profile.
    pub const fn all() -> Self {
        Self { values: None, source: None }
    }

    /// Whether the filter matches a detail.
    pub fn matches(&self, detail: &Detail) -> bool {
        let is_value = |(kind, value): &(Kind, ContactValue)| *kind == detail.kind && *value == detail.value;
        self.values.as_ref().is_none_or(|values| values.iter().any(is_value))
            && self.source.as_ref().is_none_or(|source| *source == detail.source)
    }
}

/// What a sweep removes.
#[derive(Clone, Copy, Debug)]
pub struct SweepPlan<'a> {
    /// Details that have expired at this time.
    pub now: Timestamp,
    /// Details that are too old.
    pub aged: Aged<'a>,
    /// What imports before this time have kept so that they could be undone.
    pub former_before: Timestamp,
}

/// Which details are too old.
#[derive(Clone, Copy, Debug)]
pub enum Aged<'a> {
    /// None.
    Not,
    /// Those older than the maximum age of their source.
    Policies,
    /// Those of this source that are older than this, since they were observed or, if unknown, last imported.
    Source(&'a str, Duration),
}

/// What a sweep removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Swept {
    /// Details that had expired.
    #[serde(rename = "expiredRemoved")]
    pub expired: u64,
    /// Details that were too old.
    #[serde(rename = "agedRemoved")]
    pub aged: u64,
    /// Details that were only kept so that imports could be undone.
    #[serde(rename = "keptForUndoRemoved")]
    pub former: u64,
}

/// How many profiles and details are held.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Profiles with at least one detail.
    pub profiles: u64,
    /// Details by source, kind and label; no count is zero.
    pub details: Vec<DetailTotal>,
    /// The newest import.
    pub newest_import: Option<PastImport>,
}

/// How many details of one kind and label a source holds.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[expect(missing_docs, reason = "the fields are the words of the glossary")]
pub struct DetailTotal {
    pub source: String,
    pub kind: Kind,
    pub label: Label,
    pub count: u64,
}
