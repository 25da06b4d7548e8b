//! `contactd audit show --follow`

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use contactd_core::Cancel;
use contactd_services::views::{EventView, FollowedLine, FollowedView};
use contactd_services::{AuditQuery, FollowPlace, Follower};
use tokio::signal::unix::{SignalKind, signal};

use super::listing::{Form, HEADER, action_row, correction_row, request_row, text_line};
use super::warn_of_superseded;
use crate::context::Context;
use crate::output;

/// How long it waits before it looks for new lines.
const PAUSE: Duration = Duration::from_millis(300);
/// How long the line that is being written may take when it is asked to stop: whoever reads it may not go on.
const LAST_LINE_TIMEOUT: Duration = Duration::from_secs(1);

pub(super) async fn run(
    context: &Context,
    query: AuditQuery,
    after: Option<FollowPlace>,
    form: Form,
) -> anyhow::Result<ExitCode> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let stop = Cancel::default();
    let (services, actor, asked) = (Arc::clone(&context.services), context.actor.clone(), stop.clone());
    // A task of its own, because writing to a pipe may block.
    let mut following = tokio::spawn(async move {
        let follower = services.audits.follow(&actor, query, after).await?;
        follow(follower, form, &asked).await
    });
    warn_of_superseded(context).await?;
    tokio::select! {
        ended = &mut following => return ended?.map(|()| ExitCode::SUCCESS),
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    stop.cancel();
    let _ = tokio::time::timeout(LAST_LINE_TIMEOUT, following).await;
    Ok(ExitCode::SUCCESS)
}

/// Prints lines until it is asked to stop, or nobody reads them any more.
async fn follow(mut follower: Follower, form: Form, stop: &Cancel) -> anyhow::Result<()> {
    let (mut is_first, mut failed) = (true, None);
    let mut trouble: Option<String> = None;
    while !stop.is_cancelled() && !output::is_reader_gone() {
        let visit = |line: &FollowedView| {
            failed = print(line, form, std::mem::take(&mut is_first)).err();
            failed.is_none() && !stop.is_cancelled()
        };
        let read = follower.next(visit).await;
        for note in follower.notes() {
            output::words(format_args!("contactd: {note}"));
        }
        if let Some(error) = failed {
            return Err(error);
        }
        match read {
            Ok(()) if trouble.take().is_some() => output::words(format_args!("contactd: following again")),
            Ok(()) => {}
            Err(error) if error.may_pass() => {
                let text = error.to_string();
                if trouble.as_ref() != Some(&text) {
                    output::words(format_args!("contactd: {text}; trying again"));
                    trouble = Some(text);
                }
            }
            Err(error) => return Err(error.into()),
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

/// Prints one line, which the reader has when this returns.
fn print(shown: &FollowedView, form: Form, is_first: bool) -> anyhow::Result<()> {
    let mut text = match form {
        Form::Json => serde_json::to_string(shown)? + "\n",
        Form::Text | Form::Csv => text_line(match &shown.line {
            FollowedLine::Event(event) => match &**event {
                EventView::Request(request) => request_row(request),
                EventView::Admin(action) => action_row(action),
            },
            FollowedLine::Correction(correction) => correction_row(correction),
        }),
    };
    if is_first && form == Form::Text {
        text = text_line(HEADER.map(str::to_owned)) + &text;
    }
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}
