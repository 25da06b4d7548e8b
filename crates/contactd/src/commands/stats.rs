//! `contactd stats`

use std::process::ExitCode;

use contactd_core::Timestamp;
use contactd_core::store::{DetailTotal, FormerTotal, PartSize, PastImport};
use contactd_services::Stats;
use serde::Serialize;

use crate::context::Context;
use crate::{output, progress};

/// The statistics, as JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ShownStats<'a> {
    profiles: u64,
    details: &'a [DetailTotal],
    suppressions: u64,
    newest_import: Option<NewestImport<'a>>,
    kept_for_undo: FormerTotal,
    bytes: u64,
    files: &'a [PartSize],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NewestImport<'a> {
    imported_at: Timestamp,
    source: &'a str,
    rows: u64,
    rejected: u64,
    suppressed: u64,
    details_new: u64,
    details_changed: u64,
    details_unchanged: u64,
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

pub(crate) async fn run(context: &Context, json: bool) -> anyhow::Result<ExitCode> {
    let stats = progress::during("counting", context.services.health.stats(&context.actor)).await?;
    let bytes = stats.parts.iter().map(|part| part.bytes).sum();
    if json {
        output::json(&ShownStats {
            profiles: stats.profiles,
            details: &stats.details,
            suppressions: stats.suppressions,
            newest_import: stats.newest_import.as_ref().map(NewestImport::from),
            kept_for_undo: stats.former,
            bytes,
            files: &stats.parts,
        })?;
    } else {
        show(&stats, bytes)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

fn show(stats: &Stats, bytes: u64) -> anyhow::Result<()> {
    output::data(format_args!("profiles      {}", stats.profiles))?;
    output::data(format_args!("suppressions  {}", stats.suppressions))?;
    output::data(format_args!("on disk       {}", mebibytes(bytes)))?;
    if stats.former.details > 0 {
        let FormerTotal { details, bytes } = stats.former;
        output::data(format_args!(
            "kept for undo {}, about {}",
            output::counted(details, "detail"),
            mebibytes(bytes)
        ))?;
    }
    if let Some(PastImport { at, summary, .. }) = &stats.newest_import {
        output::data(format_args!(
            "newest import {at} from {}: {} rows, {} rejected",
            summary.source, summary.rows, summary.rejected
        ))?;
    }
    if !stats.details.is_empty() {
        output::data(format_args!(""))?;
        let row = |total: &DetailTotal| {
            let (kind, label) = (total.kind.name().to_owned(), total.label.name().to_owned());
            vec![total.source.clone(), kind, label, total.count.to_string()]
        };
        let rows: Vec<_> = stats.details.iter().map(row).collect();
        output::table(&["SOURCE", "KIND", "LABEL", "DETAILS"], &rows)?;
    }
    Ok(())
}
