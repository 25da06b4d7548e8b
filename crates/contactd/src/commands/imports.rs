//! `contactd imports`

use std::process::ExitCode;

use contactd_core::Timestamp;
use contactd_core::store::PastImport;
use serde::Serialize;

use crate::cli::{ImportsArgs, ImportsCommand};
use crate::context::Context;
use crate::output;
use crate::progress::Waiting;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ShownImport {
    id: i64,
    imported_at: Timestamp,
    source: String,
    actor: Option<String>,
    rows: u64,
    rejected: u64,
    suppressed: u64,
    profiles_new: u64,
    profiles_changed: u64,
    details_new: u64,
    details_changed: u64,
    details_unchanged: u64,
    details_withdrawn: u64,
    undone_at: Option<Timestamp>,
}

impl From<PastImport> for ShownImport {
    fn from(PastImport { id, at, summary, undone_at }: PastImport) -> Self {
        Self {
            id,
            imported_at: at,
            source: summary.source,
            actor: summary.actor,
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
        }
    }
}

pub(crate) async fn run(context: &Context, args: &ImportsArgs) -> anyhow::Result<ExitCode> {
    match args.command {
        None => list(context, args.json).await,
        Some(ImportsCommand::Undo { id, json }) => undo(context, id, json || args.json).await,
    }
}

async fn list(context: &Context, json: bool) -> anyhow::Result<ExitCode> {
    let imports = context.services.imports.list(&context.actor).await?;
    let imports: Vec<ShownImport> = imports.into_iter().map(ShownImport::from).collect();
    if json {
        output::json(&imports)?;
        return Ok(ExitCode::SUCCESS);
    }
    if imports.is_empty() {
        output::words(format_args!("nothing has been imported yet; see `contactd import --help`"));
        return Ok(ExitCode::SUCCESS);
    }
    let row = |import: &ShownImport| {
        vec![
            import.id.to_string(),
            import.imported_at.to_string(),
            import.source.clone(),
            import.actor.clone().unwrap_or_default(),
            import.rows.to_string(),
            import.rejected.to_string(),
            import.details_new.to_string(),
            import.details_changed.to_string(),
            import.details_withdrawn.to_string(),
            import.undone_at.map(|at| at.to_string()).unwrap_or_default(),
        ]
    };
    let header =
        ["ID", "IMPORTED", "SOURCE", "BY", "ROWS", "REJECTED", "NEW", "CHANGED", "WITHDRAWN", "UNDONE"];
    output::table(&header, &imports.iter().map(row).collect::<Vec<_>>())?;
    Ok(ExitCode::SUCCESS)
}

async fn undo(context: &Context, id: i64, json: bool) -> anyhow::Result<ExitCode> {
    let waiting = Waiting::for_the_store();
    let undone = context.services.imports.undo(&context.actor, id, &|step| waiting.show(step)).await?;
    let details = undone.done.details;
    if json {
        output::json(&serde_json::json!({ "id": id, "detailsWithdrawn": details }))?;
    }
    output::words(format_args!(
        "{} removed that the import had added, including those that later imports contained too. Details that the import \
         changed or removed are not restored",
        output::counted(details, "detail")
    ));
    output::unrecorded(&undone.recorded);
    undone.confirmed?;
    Ok(ExitCode::SUCCESS)
}
