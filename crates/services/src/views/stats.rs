//! How much is held.

use contactd_core::store::{DetailTotal, FormerTotal, PartSize, PastImport};
use serde::{Serialize, Serializer};
use serde_json::json;

/// How much is held, and how much space it takes.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StatsView {
    /// Profiles with at least one detail.
    pub profiles: u64,
    pub details: Vec<DetailTotal>,
    /// Suppressed people, numbers and addresses.
    pub suppressions: u64,
    #[serde(serialize_with = "in_short")]
    pub newest_import: Option<PastImport>,
    pub kept_for_undo: FormerTotal,
    /// The sum of the files.
    pub bytes: u64,
    pub files: Vec<PartSize>,
}

fn in_short<S: Serializer>(import: &Option<PastImport>, serializer: S) -> Result<S::Ok, S::Error> {
    let short = import.as_ref().map(|PastImport { at, summary, .. }| {
        json!({
            "importedAt": at,
            "source": summary.source,
            "rows": summary.rows,
            "rejected": summary.rejected,
            "suppressed": summary.suppressed,
            "detailsNew": summary.counts.new,
            "detailsChanged": summary.counts.changed,
            "detailsUnchanged": summary.counts.unchanged,
        })
    });
    short.serialize(serializer)
}
