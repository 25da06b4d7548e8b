//! What an import did.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::SimilarSource;
use contactd_core::Actor;
use contactd_core::store::{Crowd, ImportSummary, PutCounts};
use contactd_import::{InputRead, ReadRows, RejectedRow, Warning};

/// What an import did, or would have done.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the counts are those of PutCounts and ReadRows")]
pub struct ImportReport {
    /// Its number, by which it can be undone, if it was committed.
    #[serde(skip)]
    pub id: Option<i64>,
    /// Whether it was committed. It is not with too many rejected rows, nor in a dry run.
    pub committed: bool,
    pub rows: u64,
    /// What depends on what is on file; `None` if whoever asked may not see it.
    #[serde(flatten)]
    pub compared: Option<Compared>,
    pub rejected: u64,
    pub partly_rejected: u64,
    pub values_rejected: u64,
    pub rejected_by_reason: BTreeMap<&'static str, u64>,
    /// Profiles for which a source has too many values of a kind: the first of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub profiles_refused: Vec<RefusedProfile>,
    pub examples: Vec<RejectedRow>,
    /// Columns of the inputs that were not used.
    pub columns_not_used: Vec<String>,
    /// For columns that are missing, the header that probably means them.
    pub suggested_mapping: BTreeMap<&'static str, String>,
    pub warnings: Vec<Warning>,
    /// New sources that are probably known ones with a typing mistake.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub similar_sources: Vec<SimilarSource>,
    pub inputs: Vec<InputRead>,
    /// Whether reading stopped when too many rows were rejected. The counts are of what was read.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub reading_stopped: bool,
    /// Rejected rows that are not in the file of rejected rows, because that has 100 MiB.
    #[serde(skip_serializing_if = "is_zero")]
    pub rejects_not_kept: u64,
    /// Whether nothing was loaded because more rows were rejected than allowed.
    #[serde(skip)]
    pub has_too_many_rejects: bool,
    /// Whether details of people who opted out while it ran may be left in the store's logs.
    #[serde(skip)]
    pub are_traces_left: bool,
    /// Details that were removed after the import, because they are older than the new maximum age.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details_too_old: Option<u64>,
    /// Replaced sources that held nothing before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub replaced_nothing: Vec<String>,
    /// Why details older than the new maximum age could not be removed, if that failed.
    #[serde(skip)]
    pub not_swept: Option<String>,
}

/// What an import did with what is on file, or would have done.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the counts are those of PutCounts and ReadRows")]
pub struct Compared {
    pub profiles_new: u64,
    pub profiles_changed: u64,
    pub details_new: u64,
    pub details_changed: u64,
    pub details_unchanged: u64,
    pub details_withdrawn: u64,
    pub suppressed: u64,
}

/// A profile for which a source has too many values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RefusedProfile {
    /// The profile.
    pub profile_url: String,
    /// The source.
    pub source: String,
    /// The reason, as a code.
    pub reason: &'static str,
}

impl RefusedProfile {
    /// A source may have [`MOST_VALUES`](contactd_core::store::MOST_VALUES) of a kind for a profile.
    pub const TOO_MANY: &'static str = "too_many_values";
}

impl ImportReport {
    pub(super) fn of(read: &ReadRows) -> Self {
        Self {
            rows: read.rows,
            rejected: read.rejected,
            partly_rejected: read.partly_rejected,
            values_rejected: read.values_rejected,
            rejected_by_reason: read.rejected_by_reason.clone(),
            examples: read.examples.clone(),
            compared: Some(Compared { suppressed: read.suppressed, ..Compared::default() }),
            columns_not_used: not_used(&read.inputs),
            suggested_mapping: suggested(&read.inputs),
            warnings: read.warnings.clone(),
            inputs: read.inputs.clone(),
            reading_stopped: read.is_stopped,
            rejects_not_kept: read.rejects_not_kept,
            ..Self::default()
        }
    }

    pub(super) fn count(&mut self, counts: PutCounts) {
        let before = self.compared.unwrap_or_default().suppressed;
        self.compared = Some(Compared {
            profiles_new: counts.profiles_new,
            profiles_changed: counts.profiles_changed,
            details_new: counts.new,
            details_changed: counts.changed,
            details_unchanged: counts.unchanged,
            details_withdrawn: counts.withdrawn,
            suppressed: before + counts.taken_back,
        });
    }

    /// Counts what was refused as rejected.
    pub(super) fn refuse(&mut self, crowds: &[Crowd], details: u64) {
        if details == 0 {
            return;
        }
        // Each row has at least one detail.
        self.rejected = self.rows.min(self.rejected + details);
        self.values_rejected += details;
        *self.rejected_by_reason.entry(RefusedProfile::TOO_MANY).or_default() += details;
        self.profiles_refused = crowds
            .iter()
            .map(|crowd| RefusedProfile {
                profile_url: crowd.profile.as_str().to_owned(),
                source: crowd.source.clone(),
                reason: RefusedProfile::TOO_MANY,
            })
            .collect();
    }

    pub(super) fn summary(
        &self,
        counts: PutCounts,
        sources: &BTreeSet<String>,
        actor: &Actor,
    ) -> ImportSummary {
        ImportSummary {
            source: Vec::from_iter(sources.iter().map(String::as_str)).join(", "),
            actor: Some(actor.to_string()),
            files: Vec::new(),
            rows: self.rows,
            rejected: self.rejected,
            suppressed: self.compared.unwrap_or_default().suppressed,
            counts,
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The columns that were not used, each once.
fn not_used(inputs: &[InputRead]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in inputs.iter().flat_map(|input| &input.columns_not_used) {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    names
}

/// The suggestions of all inputs; for each column the first.
fn suggested(inputs: &[InputRead]) -> BTreeMap<&'static str, String> {
    let mut mapping = BTreeMap::new();
    for (column, header) in inputs.iter().flat_map(|input| &input.suggested_mapping) {
        mapping.entry(*column).or_insert_with(|| header.clone());
    }
    mapping
}
