//! `contactd sweep`: removes details whose time is over.

use std::process::ExitCode;

use anyhow::bail;
use contactd_core::store::{Aged, Details, Swept};

use crate::cli::SweepArgs;
use crate::context::Context;
use crate::output;
use crate::span::Span;

pub(crate) async fn run(context: &Context, args: &SweepArgs) -> anyhow::Result<ExitCode> {
    let aged = match (&args.source, args.max_age) {
        (Some(source), Some(Span(max_age))) => Aged::Source(source, max_age),
        _ => Aged::Policies,
    };
    let Swept { expired, aged } = context.store.sweep(context.now(), aged).await?;
    context.announce()?;
    let is_scrubbed = context.store.scrub()?;
    if args.json {
        output::json(&serde_json::json!({ "expiredRemoved": expired, "agedRemoved": aged }))?;
    }
    output::words(format_args!(
        "{expired} expired details removed, and {aged} that were older than their source allows"
    ));
    if !is_scrubbed {
        bail!("a reader keeps what was removed in the write-ahead log; run this again in a moment");
    }
    Ok(ExitCode::SUCCESS)
}
