//! What an import did.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::Actor;
use crate::services::imports::ReadRows;
use crate::store::{ImportSummary, PutCounts};

/// What an import did, or would have done.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the counts are those of PutCounts and ReadRows")]
pub struct ImportReport {
    /// Whether it was committed. It is not with too many rejected rows, nor in a dry run.
    pub committed: bool,
    pub rows: u64,
    pub profiles_new: u64,
    pub profiles_changed: u64,
    pub details_new: u64,
    pub details_changed: u64,
    pub details_unchanged: u64,
    pub details_withdrawn: u64,
    pub suppressed: u64,
    pub rejected: u64,
    pub rejected_by_reason: BTreeMap<&'static str, u64>,
    pub examples: Vec<RejectedRow>,
    /// Whether nothing was loaded because more rows were rejected than allowed.
    #[serde(skip)]
    pub has_too_many_rejects: bool,
    /// Whether details of people who opted out while it ran may be left in the store's logs.
    #[serde(skip)]
    pub are_traces_left: bool,
    /// Why details older than the new maximum age could not be removed, if that failed.
    #[serde(skip)]
    pub not_swept: Option<String>,
}

/// A rejected row, without its content.
#[derive(Clone, Debug, Serialize)]
pub struct RejectedRow {
    /// The file, as it is shown to people.
    pub file: String,
    /// The line on which the row begins, or the row's number.
    pub line: u64,
    /// The faulty column.
    pub column: &'static str,
    /// The reason, as a code.
    pub reason: &'static str,
}

impl ImportReport {
    pub(super) fn of(read: &ReadRows) -> Self {
        Self {
            rows: read.rows,
            rejected: read.rejected,
            rejected_by_reason: read.rejected_by_reason.clone(),
            examples: read.examples.clone(),
            suppressed: read.suppressed,
            ..Self::default()
        }
    }

    pub(super) fn count(&mut self, counts: PutCounts) {
        self.profiles_new = counts.profiles_new;
        self.profiles_changed = counts.profiles_changed;
        self.details_new = counts.new;
        self.details_changed = counts.changed;
        self.details_unchanged = counts.unchanged;
        self.details_withdrawn = counts.withdrawn;
        self.suppressed += counts.taken_back;
    }

    pub(super) fn summary(&self, sources: &BTreeSet<String>, actor: &Actor) -> ImportSummary {
        ImportSummary {
            source: Vec::from_iter(sources.iter().map(String::as_str)).join(", "),
            actor: Some(actor.to_string()),
            files: Vec::new(),
            rows: self.rows,
            rejected: self.rejected,
            suppressed: self.suppressed,
            counts: PutCounts {
                profiles_new: self.profiles_new,
                profiles_changed: self.profiles_changed,
                new: self.details_new,
                changed: self.details_changed,
                unchanged: self.details_unchanged,
                withdrawn: self.details_withdrawn,
                taken_back: 0,
            },
        }
    }
}
