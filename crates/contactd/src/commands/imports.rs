//! `contactd imports`

use std::process::ExitCode;

use contactd_core::Cancel;
use contactd_core::store::Undone;
use contactd_services::ImportError;
use contactd_services::views::ImportView;

use crate::cli::{ImportsArgs, ImportsCommand};
use crate::context::Context;
use crate::{output, progress};

pub(crate) async fn run(context: &Context, args: &ImportsArgs) -> anyhow::Result<ExitCode> {
    match args.command {
        None => list(context, args.json).await,
        Some(ImportsCommand::Undo { id, json }) => undo(context, id, json || args.json).await,
    }
}

async fn list(context: &Context, json: bool) -> anyhow::Result<ExitCode> {
    let imports = context.services.imports.list(&context.actor).await?;
    if json {
        output::json(&imports)?;
        return Ok(ExitCode::SUCCESS);
    }
    if imports.is_empty() {
        output::words(format_args!("nothing has been imported yet; see `contactd import --help`"));
        return Ok(ExitCode::SUCCESS);
    }
    let row = |import: &ImportView| {
        vec![
            import.id.to_string(),
            import.imported_at.to_string(),
            import.source.clone(),
            import.actor.clone().unwrap_or_default(),
            import.files.join(", "),
            import.rows.to_string(),
            import.rejected.to_string(),
            import.details_new.to_string(),
            import.details_changed.to_string(),
            import.details_withdrawn.to_string(),
            match (import.undone_at, import.undo_until) {
                (Some(at), _) => format!("undone {at}"),
                (None, Some(until)) => format!("until {until}"),
                (None, None) => "no longer".to_owned(),
            },
        ]
    };
    let header = [
        "ID",
        "IMPORTED",
        "SOURCE",
        "BY",
        "FILES",
        "ROWS",
        "REJECTED",
        "NEW",
        "CHANGED",
        "WITHDRAWN",
        "UNDO",
    ];
    output::table(&header, &imports.iter().map(row).collect::<Vec<_>>())?;
    Ok(ExitCode::SUCCESS)
}

async fn undo(context: &Context, id: i64, json: bool) -> anyhow::Result<ExitCode> {
    let (show, cancel) = (progress::waiting(), Cancel::default());
    let undoing = context.services.imports.undo(&context.actor, id, &show, &cancel);
    let undone = progress::during("undoing the import", undoing).await.map_err(with_advice)?;
    let Undone { removed, restored } = undone.done;
    if json {
        output::json(
            &serde_json::json!({ "id": id, "detailsRemoved": removed, "detailsRestored": restored }),
        )?;
    }
    output::changed(
        &context.place,
        format_args!(
            "import {id} is undone: {} removed that it had added, {restored} restored that it had changed or withdrawn",
            output::counted(removed, "detail")
        ),
    );
    output::words(format_args!("what was removed, erased or has expired since is not restored"));
    output::remarks(&undone.notes, &undone.recorded);
    undone.confirmed?;
    Ok(ExitCode::SUCCESS)
}

fn with_advice(error: ImportError) -> anyhow::Error {
    match &error {
        ImportError::Unknown(_) => anyhow::anyhow!("{error}; `contactd imports` lists them"),
        ImportError::Later { later, .. } => {
            anyhow::anyhow!("{error}. Undo that one first: contactd imports undo {later}")
        }
        ImportError::NotKept(_) => {
            anyhow::anyhow!("{error}. `retention.undo` in the configuration says how long it is kept")
        }
        _ => error.into(),
    }
}
