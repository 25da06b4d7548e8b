//! `contactd sweep`: removes details that have expired or are too old.

use std::process::ExitCode;

use anyhow::bail;
use contactd_core::store::Aged;
use contactd_core::{Cancel, Span};
use contactd_services::{Clearing, SweepReport};

use crate::cli::SweepArgs;
use crate::context::Context;
use crate::{output, progress};

pub(crate) async fn run(context: &Context, args: &SweepArgs) -> anyhow::Result<ExitCode> {
    let aged = match (&args.source, args.max_age) {
        (Some(source), Some(Span(max_age))) => Aged::Source(source, max_age),
        _ => Aged::Policies,
    };
    let imports = &context.services.imports;
    let (show, cancel) = (progress::waiting(), Cancel::default());
    let sweeping = imports.sweep(&context.actor, aged, Clearing::Always, &show, &cancel);
    let swept = progress::during("looking for details to remove", sweeping).await?;
    let SweepReport { swept: done, logs_are_clear } = swept.done;
    if args.json {
        output::json(&done)?;
    }
    output::changed(
        &context.place,
        format_args!(
            "{} removed that had expired, {} that were older than their source allows, {} that were kept for undo",
            output::counted(done.expired, "detail"),
            done.aged,
            done.former
        ),
    );
    output::remarks(&swept.notes, &swept.recorded);
    swept.confirmed?;
    if !logs_are_clear {
        bail!(
            "the removed details are still in the write-ahead log, because a reader is using it; run this again in a moment"
        );
    }
    Ok(ExitCode::SUCCESS)
}
