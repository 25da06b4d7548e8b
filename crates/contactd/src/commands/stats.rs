//! `contactd stats`

use std::process::ExitCode;

use contactd_core::store::{DetailTotal, FormerTotal, PastImport};
use contactd_services::views::StatsView;
use serde::Serialize;

use crate::answered_from::Lookups;
use crate::context::Context;
use crate::{output, progress};

pub(crate) async fn run(context: &Context, json: bool) -> anyhow::Result<ExitCode> {
    let stats = progress::during("counting", context.services.health.stats(&context.actor)).await?;
    let lookups = Lookups::of_server(&context.dir).ok().flatten();
    if json {
        output::json(&Shown { stats, lookups })?;
    } else {
        show(&stats)?;
        if let Some(lookups) = lookups {
            output::data(format_args!("lookups       answered from {}", lookups.words()))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    stats: StatsView,
    /// `None` if no server is running here.
    lookups: Option<Lookups>,
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

fn show(stats: &StatsView) -> anyhow::Result<()> {
    output::data(format_args!("profiles      {}", stats.profiles))?;
    output::data(format_args!("suppressions  {}", stats.suppressions))?;
    output::data(format_args!("on disk       {}", mebibytes(stats.bytes)))?;
    if stats.kept_for_undo.details > 0 {
        let FormerTotal { details, bytes } = stats.kept_for_undo;
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
