//! Imports that were made.

use contactd_core::Timestamp;
use contactd_core::store::PastImport;
use schemars::JsonSchema;
use serde::Serialize;

/// An import that was made, as lists show it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ShownImport")]
pub struct ImportView {
    /// Its number.
    pub id: i64,
    pub imported_at: Timestamp,
    pub source: String,
    /// Who imported it.
    pub actor: Option<String>,
    pub files: Vec<String>,
    pub rows: u64,
    pub rejected: u64,
    pub suppressed: u64,
    pub profiles_new: u64,
    pub profiles_changed: u64,
    pub details_new: u64,
    pub details_changed: u64,
    pub details_unchanged: u64,
    pub details_withdrawn: u64,
    pub undone_at: Option<Timestamp>,
    /// Until when it can be undone, if it can.
    pub undo_until: Option<Timestamp>,
}

impl ImportView {
    pub(crate) fn of(import: PastImport, undo_until: Option<Timestamp>) -> Self {
        let PastImport { id, at, summary, undone_at, .. } = import;
        Self {
            id,
            imported_at: at,
            source: summary.source,
            actor: summary.actor,
            files: summary.files,
            rows: summary.rows,
            rejected: summary.rejected,
            suppressed: summary.suppressed,
            profiles_new: summary.counts.profiles_new,
            profiles_changed: summary.counts.profiles_changed,
            details_new: summary.counts.new,
            details_changed: summary.counts.changed,
            details_unchanged: summary.counts.unchanged,
            details_withdrawn: summary.counts.withdrawn,
            undone_at,
            undo_until,
        }
    }
}
