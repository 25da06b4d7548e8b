//! `contactd imports`

use std::process::ExitCode;

use anyhow::bail;
use contactd_core::store::{Details, PastImport};
use serde::Serialize;

use crate::cli::{ImportsArgs, ImportsCommand};
use crate::context::Context;
use crate::output;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    id: i64,
    imported_at: String,
    source: String,
    rows: u64,
    rejected: u64,
    suppressed: u64,
    profiles_new: u64,
    profiles_changed: u64,
    details_new: u64,
    details_changed: u64,
    details_unchanged: u64,
    details_withdrawn: u64,
    undone_at: Option<String>,
}

pub(crate) async fn run(context: &Context, args: &ImportsArgs) -> anyhow::Result<ExitCode> {
    match args.command {
        None => list(context, args.json).await,
        Some(ImportsCommand::Undo { id, json }) => undo(context, id, json || args.json).await,
    }
}

async fn list(context: &Context, json: bool) -> anyhow::Result<ExitCode> {
    let imports: Vec<Shown> = context.store.list_imports().await?.into_iter().map(shown).collect();
    if json {
        output::json(&imports)?;
        return Ok(ExitCode::SUCCESS);
    }
    if imports.is_empty() {
        output::words(format_args!("nothing has been imported yet; `contactd import --help` says how"));
        return Ok(ExitCode::SUCCESS);
    }
    let row = |import: &Shown| {
        vec![
            import.id.to_string(),
            import.imported_at.clone(),
            import.source.clone(),
            import.rows.to_string(),
            import.rejected.to_string(),
            import.details_new.to_string(),
            import.details_changed.to_string(),
            import.details_withdrawn.to_string(),
            import.undone_at.clone().unwrap_or_default(),
        ]
    };
    let header = ["ID", "IMPORTED", "SOURCE", "ROWS", "REJECTED", "NEW", "CHANGED", "WITHDRAWN", "UNDONE"];
    output::table(&header, &imports.iter().map(row).collect::<Vec<_>>())?;
    Ok(ExitCode::SUCCESS)
}

async fn undo(context: &Context, id: i64, json: bool) -> anyhow::Result<ExitCode> {
    let Some(details) = context.store.undo_import(id, context.now()).await? else {
        bail!("there is no import {id}, or it was undone before; `contactd imports` lists them");
    };
    context.announce()?;
    if json {
        output::json(&serde_json::json!({ "id": id, "detailsWithdrawn": details }))?;
    }
    output::words(format_args!(
        "{details} details withdrawn, also those that later imports said again. What the import changed or withdrew of \
         others stays as it is now"
    ));
    Ok(ExitCode::SUCCESS)
}

fn shown(import: PastImport) -> Shown {
    let PastImport { id, at, summary, undone_at } = import;
    Shown {
        id,
        imported_at: at.to_string(),
        source: summary.source,
        rows: summary.rows,
        rejected: summary.rejected,
        suppressed: summary.suppressed,
        profiles_new: summary.counts.profiles_new,
        profiles_changed: summary.counts.profiles_changed,
        details_new: summary.counts.new,
        details_changed: summary.counts.changed,
        details_unchanged: summary.counts.unchanged,
        details_withdrawn: summary.counts.withdrawn,
        undone_at: undone_at.map(|at| at.to_string()),
    }
}
