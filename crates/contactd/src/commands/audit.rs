//! `contactd audit show`, `verify`, `head`

mod listing;

use std::process::ExitCode;

use anyhow::bail;
use contactd_core::Verification;
use contactd_core::services::{AuditQuery, IndexState};
use serde::Serialize;

use crate::cli::{AuditCommand, AuditShowArgs, AuditVerifyArgs};
use crate::context::Context;
use crate::output;
use listing::Listing;

pub(crate) async fn run(context: &Context, command: &AuditCommand) -> anyhow::Result<ExitCode> {
    match command {
        AuditCommand::Show(args) => show(context, args).await,
        AuditCommand::Verify(args) => verify(context, args).await,
        AuditCommand::Head(args) => head(context, args.json),
    }
}

async fn show(context: &Context, args: &AuditShowArgs) -> anyhow::Result<ExitCode> {
    let query = AuditQuery {
        token: args.token.clone(),
        profile: args.profile.as_deref().map(|url| context.profile(url)).transpose()?,
        since: args.since,
        until: args.until,
        outcome: args.outcome.clone(),
    };
    let mut out = Listing::begin(args.json);
    let mut failed = None;
    let mut left = args.limit.unwrap_or(u64::MAX);
    let visit = |named: contactd_core::services::NamedRecord<'_>| {
        if left == 0 {
            return false;
        }
        left -= 1;
        failed = out.add(&named.record, named.token_name).err();
        failed.is_none()
    };
    let index = context.services.audits.show(&context.actor, query, visit).await?;
    warn(&index);
    match failed {
        Some(error) => Err(error),
        None => out.end().map(|()| ExitCode::SUCCESS),
    }
}

/// Warns about problems with the index.
pub(crate) fn warn(index: &IndexState) {
    if let Some(error) = &index.unusable {
        output::words(format_args!(
            "contactd: the index cannot be used ({error}); the whole journal was read"
        ));
    }
    if index.is_lost {
        output::words(format_args!(
            "contactd: lines are missing from the journal or were changed; run `contactd audit verify` to see which"
        ));
    }
}

/// The result of a verification, as JSON.
#[derive(Serialize)]
struct ShownVerification<'a> {
    #[serde(rename = "isWhole")]
    is_whole: bool,
    #[serde(flatten)]
    verification: &'a Verification,
}

/// How many faults the text output shows.
const SHOWN: usize = 20;

async fn verify(context: &Context, args: &AuditVerifyArgs) -> anyhow::Result<ExitCode> {
    let audits = &context.services.audits;
    if args.accept_loss {
        audits.accept_loss(&context.actor).await?;
    }
    let verification = audits.verify(&context.actor, args.head).await?;
    match show_verification(&verification, args.json) {
        // If the reader has closed the pipe, the exit code still tells whether the journal is whole.
        Err(error) if !output::is_broken_pipe(&error) => Err(error),
        _ => Ok(if verification.is_whole() { ExitCode::SUCCESS } else { ExitCode::FAILURE }),
    }
}

fn show_verification(verification: &Verification, json: bool) -> anyhow::Result<()> {
    let Verification { lines, head, faults, notes, .. } = verification;
    if json {
        return output::json(&ShownVerification { is_whole: verification.is_whole(), verification });
    }
    for note in notes {
        output::data(format_args!("note: {note}"))?;
    }
    for fault in faults.iter().take(SHOWN) {
        output::data(format_args!("WRONG {fault}"))?;
    }
    if faults.len() > SHOWN {
        output::data(format_args!("and {} more; --json lists all of them", faults.len() - SHOWN))?;
    }
    match (faults.is_empty(), head) {
        (true, Some(head)) => {
            output::data(format_args!(
                "whole: {}, to line {} of {}",
                output::counted(*lines, "line"),
                head.seq,
                head.at
            ))?;
        }
        (true, None) => output::data(format_args!("whole: the journal is empty"))?,
        (false, _) => output::data(format_args!("NOT whole: {} checked", output::counted(*lines, "line")))?,
    }
    Ok(())
}

fn head(context: &Context, json: bool) -> anyhow::Result<ExitCode> {
    let Some(head) = context.services.audits.head(&context.actor)? else {
        bail!("the journal is empty: nothing has been looked up yet");
    };
    if json {
        output::json(&head)?;
    } else {
        output::data(format_args!("{}:{}", head.seq, head.chain))?;
        output::words(format_args!(
            "line {} of {}; save this elsewhere, and check it later with `contactd audit verify --head`",
            head.seq, head.at
        ));
    }
    Ok(ExitCode::SUCCESS)
}
