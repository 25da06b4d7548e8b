//! How much is held.

use contactd_core::Timestamp;
use contactd_core::store::{DetailTotal, FormerTotal, PartSize, PastImport};
use serde::Serialize;

use crate::Stats;

/// How much is held, and how much space it takes.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StatsView<'a> {
    pub profiles: u64,
    pub details: &'a [DetailTotal],
    pub suppressions: u64,
    pub newest_import: Option<NewestImport<'a>>,
    pub kept_for_undo: FormerTotal,
    /// The sum of the files.
    pub bytes: u64,
    pub files: &'a [PartSize],
}

/// The newest import, in short.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NewestImport<'a> {
    pub imported_at: Timestamp,
    pub source: &'a str,
    pub rows: u64,
    pub rejected: u64,
    pub suppressed: u64,
    pub details_new: u64,
    pub details_changed: u64,
    pub details_unchanged: u64,
}

impl<'a> From<&'a Stats> for StatsView<'a> {
    fn from(stats: &'a Stats) -> Self {
        Self {
            profiles: stats.profiles,
            details: &stats.details,
            suppressions: stats.suppressions,
            newest_import: stats.newest_import.as_ref().map(NewestImport::from),
            kept_for_undo: stats.former,
            bytes: stats.parts.iter().map(|part| part.bytes).sum(),
            files: &stats.parts,
        }
    }
}

impl<'a> From<&'a PastImport> for NewestImport<'a> {
    fn from(import: &'a PastImport) -> Self {
        let summary = &import.summary;
        Self {
            imported_at: import.at,
            source: &summary.source,
            rows: summary.rows,
            rejected: summary.rejected,
            suppressed: summary.suppressed,
            details_new: summary.counts.new,
            details_changed: summary.counts.changed,
            details_unchanged: summary.counts.unchanged,
        }
    }
}
