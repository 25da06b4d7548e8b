//! `contactd stats`

use std::process::ExitCode;

use contactd_core::store::{Details, ImportSummary, Suppressions};
use serde::Serialize;

use crate::context::Context;
use crate::output;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Stats {
    profiles: u64,
    details: Vec<Count>,
    suppressions: u64,
    newest_import: Option<Newest>,
    bytes: u64,
    files: Vec<FileSize>,
}

#[derive(Serialize)]
struct Count {
    source: String,
    kind: &'static str,
    label: &'static str,
    count: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Newest {
    imported_at: String,
    source: String,
    rows: u64,
    rejected: u64,
    suppressed: u64,
    details_new: u64,
    details_changed: u64,
    details_unchanged: u64,
}

#[derive(Serialize)]
struct FileSize {
    file: String,
    bytes: u64,
}

pub(crate) async fn run(context: &Context, json: bool) -> anyhow::Result<ExitCode> {
    let mut totals = context.store.totals().await?;
    let segments = contactd_journal::segments(&context.dir.audit())?;
    let journal = segments.iter().filter_map(|segment| Some(segment.path.metadata().ok()?.len())).sum();
    totals.bytes.push(("audit/".to_owned(), journal));
    let stats = Stats {
        profiles: totals.profiles,
        details: totals
            .details
            .into_iter()
            .map(|total| Count {
                source: total.source,
                kind: total.kind.name(),
                label: total.label.name(),
                count: total.count,
            })
            .collect(),
        suppressions: context.store.list_suppressions().await?.len() as u64,
        newest_import: totals.newest_import.map(|newest| self::newest(newest.at.to_string(), newest.summary)),
        bytes: totals.bytes.iter().map(|(_, bytes)| bytes).sum(),
        files: totals.bytes.into_iter().map(|(file, bytes)| FileSize { file, bytes }).collect(),
    };
    if json {
        output::json(&stats)?;
    } else {
        show(&stats)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn newest(imported_at: String, summary: ImportSummary) -> Newest {
    Newest {
        imported_at,
        source: summary.source,
        rows: summary.rows,
        rejected: summary.rejected,
        suppressed: summary.suppressed,
        details_new: summary.counts.new,
        details_changed: summary.counts.changed,
        details_unchanged: summary.counts.unchanged,
    }
}

fn show(stats: &Stats) -> anyhow::Result<()> {
    output::data(format_args!("profiles      {}", stats.profiles))?;
    output::data(format_args!("suppressions  {}", stats.suppressions))?;
    output::data(format_args!("on disk       {:.1} MiB", stats.bytes as f64 / f64::from(1 << 20)))?;
    if let Some(newest) = &stats.newest_import {
        output::data(format_args!(
            "newest import {} from {}: {} rows, {} rejected",
            newest.imported_at, newest.source, newest.rows, newest.rejected
        ))?;
    }
    if !stats.details.is_empty() {
        output::data(format_args!(""))?;
        let row = |count: &Count| {
            vec![count.source.clone(), count.kind.to_owned(), count.label.to_owned(), count.count.to_string()]
        };
        output::table(
            &["SOURCE", "KIND", "LABEL", "DETAILS"],
            &stats.details.iter().map(row).collect::<Vec<_>>(),
        )?;
    }
    Ok(())
}
