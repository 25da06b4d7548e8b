//! `contactd retention`: how long details are kept, and which end next.

use std::process::ExitCode;

use contactd_core::Span;
use contactd_services::views::{NextView, SourceView};

use crate::config::Config;
use crate::context::Context;
use crate::{output, sweeper};

pub(crate) async fn run(config: Config, json: bool) -> anyhow::Result<ExitCode> {
    let (every, keep, undo) = (config.sweep_every(), config.audit_keep(), config.undo_for);
    let context = Context::open(config).await?;
    let sources = context.services.imports.retention(&context.actor).await?;
    if json {
        output::json(&sources)?;
        return Ok(ExitCode::SUCCESS);
    }
    if sources.is_empty() {
        output::words(format_args!("nothing is held, and no source has a maximum age"));
    } else {
        let rows: Vec<_> = sources.iter().map(cells).collect();
        output::table(&["SOURCE", "MAX AGE", "DETAILS", "DUE NOW", "NEXT"], &rows)?;
    }
    output::words(format_args!(
        "a running server removes expired details every {}, and details older than the maximum age every {}; `contactd sweep` \
         removes both now",
        Span(every),
        Span(every * sweeper::EVERY)
    ));
    output::words(format_args!(
        "what imports change and withdraw is kept for {} (retention.undo)",
        Span(undo)
    ));
    match keep {
        Some(keep) => {
            output::words(format_args!("audit lines are removed after {} (audit.keep)", Span(keep)));
        }
        None => output::words(format_args!("audit lines are kept for ever (audit.keep)")),
    }
    Ok(ExitCode::SUCCESS)
}

fn cells(of: &SourceView) -> Vec<String> {
    let next = |next: &NextView| format!("{} by {}", output::counted(next.details, "detail"), next.by);
    vec![
        of.source.clone(),
        of.max_age.map_or("none".to_owned(), |age| age.to_string()),
        of.details.to_string(),
        of.due.to_string(),
        of.next.as_ref().map_or("none".to_owned(), next),
    ]
}
