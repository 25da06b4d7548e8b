//! `contactd suppress`, `contactd unsuppress`

use std::io::{self, Read};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use contactd_core::{SubjectName, SubjectNameError, subject_lines};
use serde::Serialize;

use crate::cli::SubjectArgs;
use crate::context::{Context, subject_error};
use crate::output;

/// Whether opt-outs are added or removed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Suppress,
    Unsuppress,
}

/// What was done, as JSON.
#[derive(Serialize)]
struct OptOutReport {
    read: u64,
    changed: u64,
    rejected: Vec<RejectedSubject>,
}

#[derive(Serialize)]
struct RejectedSubject {
    /// Which argument or line it is, in words.
    #[serde(skip)]
    place: String,
    /// The line of the list, or the number of the argument.
    line: u64,
    reason: String,
}

/// How many rejected lines the text output shows.
const SHOWN: usize = 20;

pub(crate) async fn run(
    context: &Context,
    args: &SubjectArgs,
    direction: Direction,
) -> anyhow::Result<ExitCode> {
    let mut named = Vec::new();
    let mut rejected = Vec::new();
    let mut take = |line: u64, place: String, read: Result<SubjectName, SubjectNameError>| match read {
        Ok(name) => named.push(name),
        Err(error) => {
            rejected.push(RejectedSubject { place, line, reason: format!("{:#}", subject_error(error)) });
        }
    };
    for (number, url) in (1..).zip(&args.urls) {
        take(number, format!("URL {number}"), SubjectName::person(url, &context.networks));
    }
    for (number, text) in (1..).zip(&args.phone) {
        take(number, format!("--phone {number}"), SubjectName::phone(text));
    }
    for (number, text) in (1..).zip(&args.email) {
        take(number, format!("--email {number}"), SubjectName::email(text));
    }
    if let Some(file) = &args.list {
        for (line, text) in subject_lines(&read_list(file)?) {
            take(line, format!("line {line}"), SubjectName::recognize(&text, &context.networks));
        }
    }
    // Process the valid subjects even if others are invalid: one typing error must not delay another person's opt-out.
    let (opt_outs, actor) = (&context.services.opt_outs, context.actor_for(args.ticket.as_deref()));
    let changed = match direction {
        Direction::Suppress => opt_outs.suppress(&actor, &named).await?,
        Direction::Unsuppress => opt_outs.unsuppress(&actor, &named).await?,
    };
    let read = (named.len() + rejected.len()) as u64;
    let report = OptOutReport { read, changed: changed.done.changed, rejected };
    show(&report, changed.done.already, direction, args.json)?;
    output::unrecorded(&changed.recorded);
    changed.confirmed?;
    Ok(if report.rejected.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn show(report: &OptOutReport, already: u64, direction: Direction, json: bool) -> anyhow::Result<()> {
    if json {
        return output::json(report);
    }
    let (done, unchanged) = match direction {
        Direction::Suppress => ("suppressed", "already suppressed"),
        Direction::Unsuppress => ("no longer suppressed", "not suppressed before"),
    };
    output::words(format_args!("{} {done}, {already} {unchanged}", report.changed));
    for RejectedSubject { place, reason, .. } in report.rejected.iter().take(SHOWN) {
        output::words(format_args!("not done, {place}: {reason}"));
    }
    if report.rejected.len() > SHOWN {
        output::words(format_args!("and {} more; --json lists all of them", report.rejected.len() - SHOWN));
    }
    Ok(())
}

/// The bytes of a list; `-` is standard input.
fn read_list(file: &Path) -> anyhow::Result<Vec<u8>> {
    let mut list = Vec::new();
    if file == Path::new("-") {
        io::stdin().lock().read_to_end(&mut list)?;
    } else {
        if file.is_dir() {
            bail!("{} is a directory; choose a file", file.display());
        }
        list = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    }
    let first = list.split(|&b| b == b'\n').next().unwrap_or_default();
    if first.contains(&0) || first.starts_with(b"\x1F\x8B") || first.starts_with(b"\x28\xB5\x2F\xFD") {
        bail!("{} is compressed or not UTF-8; unpack it, or save it as UTF-8 text", file.display());
    }
    Ok(list)
}
