//! `contactd suppress`, `contactd unsuppress`

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use contactd_core::{SubjectName, SubjectNameError};
use contactd_import::{ReadOptions, listed};
use contactd_services::views::HolderView;
use contactd_services::{Approval, OnFile, OptOutError, OptOutOptions, OptedOut};
use serde::Serialize;

use crate::cli::{SubjectArgs, SuppressArgs};
use crate::context::{self, Context, subject_error};
use crate::{approval, output, progress};

/// What was done, as JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OptOutReport {
    read: u64,
    changed: u64,
    rejected: Vec<RejectedSubject>,
    /// After an opt-out: how many of the named subjects are not on file.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_on_file: Option<u64>,
    /// After an opt-out: the profiles that hold a named number or address.
    #[serde(skip_serializing_if = "Option::is_none")]
    holders: Option<Vec<HolderView>>,
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

/// How many rejected lines, unknown subjects or profiles the text output shows.
const SHOWN: usize = 20;

pub(crate) async fn suppress(context: &Context, args: &SuppressArgs) -> anyhow::Result<ExitCode> {
    let (named, rejected) = read(context, &args.subjects)?;
    let actor = context.actor_for(args.subjects.ticket.as_deref());
    let ask = Approval::Ask(|profiles| approval::ask("Opt out", profiles));
    let approval = if args.yes { Approval::Given } else { ask };
    let options = OptOutOptions { person: args.person, must_exist: args.must_exist, approval };
    if args.must_exist && !rejected.is_empty() {
        rejected.iter().for_each(RejectedSubject::show);
        bail!("nothing was changed, because of --must-exist");
    }
    refuse_nothing(&named, &rejected)?;
    // Process the valid subjects even if others are invalid: one typing error must not delay another person's opt-out.
    let opting_out = context.services.opt_outs.suppress(&actor, &named, options);
    let changed = progress::during("opting out", opting_out).await.map_err(name_unknown)?;
    let OptedOut { changed: count, already, on_file, .. } = changed.done;
    let found = on_file.as_ref().ok();
    let report = OptOutReport {
        read: (named.len() + rejected.len()) as u64,
        changed: count,
        rejected,
        not_on_file: found.map(|found| found.unknown.len() as u64),
        holders: found.map(|found| found.holders.clone()),
    };
    if args.subjects.json {
        output::json(&report)?;
    }
    output::changed(&context.place, format_args!("{count} suppressed, {already} already suppressed"));
    if !args.subjects.json {
        show_rejected(&report.rejected);
    }
    if let Some(found) = found {
        show_found(found, args.person, named.len());
    }
    output::remarks(&changed.notes, &changed.recorded);
    changed.confirmed?;
    let is_approved = !found.is_some_and(|found| found.needs_approval);
    on_file.context("opted out and in force, but the search for what is on file failed")?;
    Ok(if report.rejected.is_empty() && is_approved { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

pub(crate) async fn unsuppress(context: &Context, args: &SubjectArgs) -> anyhow::Result<ExitCode> {
    let (named, rejected) = read(context, args)?;
    refuse_nothing(&named, &rejected)?;
    let actor = context.actor_for(args.ticket.as_deref());
    let changed = context.services.opt_outs.unsuppress(&actor, &named).await?;
    let read = (named.len() + rejected.len()) as u64;
    let report =
        OptOutReport { read, changed: changed.done.changed, rejected, not_on_file: None, holders: None };
    if args.json {
        output::json(&report)?;
    }
    let (count, already) = (report.changed, changed.done.already);
    output::changed(
        &context.place,
        format_args!("{count} no longer suppressed, {already} not suppressed before"),
    );
    if !args.json {
        show_rejected(&report.rejected);
    }
    output::remarks(&changed.notes, &changed.recorded);
    changed.confirmed?;
    Ok(if report.rejected.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Fails if nobody is left to be done: an empty list is more likely a mistake than a day without opt-outs.
fn refuse_nothing(named: &[SubjectName], rejected: &[RejectedSubject]) -> anyhow::Result<()> {
    if !named.is_empty() {
        return Ok(());
    }
    show_rejected(rejected);
    match rejected {
        [] => bail!("the list is empty; nothing was changed"),
        _ => bail!("nothing was changed"),
    }
}

/// The subjects of a command, and what could not be read.
fn read(context: &Context, args: &SubjectArgs) -> anyhow::Result<(Vec<SubjectName>, Vec<RejectedSubject>)> {
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
        let options = ReadOptions { sheet: args.sheet.clone(), ..ReadOptions::default() };
        let list = context.services.opt_outs.read_list(open_list(file)?, &options);
        let list = list.with_context(|| format!("cannot read {}", file.display()))?;
        if !list.columns.is_empty() {
            output::words(format_args!("read from {}: {}", file.display(), list.columns.join(", ")));
        }
        if !list.other_sheets.is_empty() {
            output::words(format_args!(
                "contactd: {}: not read: the sheet {} (--sheet names another one)",
                file.display(),
                listed(&list.other_sheets)
            ));
        }
        list.named.into_iter().for_each(|name| take(0, String::new(), Ok(name)));
        for (line, error) in list.rejected {
            take(line, format!("line {line}"), Err(error));
        }
    }
    Ok((named, rejected))
}

impl RejectedSubject {
    fn show(&self) {
        output::words(format_args!("not done, {}: {}", self.place, self.reason));
    }
}

fn show_rejected(rejected: &[RejectedSubject]) {
    rejected.iter().take(SHOWN).for_each(RejectedSubject::show);
    if rejected.len() > SHOWN {
        output::words(format_args!("and {} more; --json lists all of them", rejected.len() - SHOWN));
    }
}

/// Names what is not on file, and whose other details are still disclosed.
fn show_found(found: &OnFile, person: bool, named: usize) {
    match found.unknown.as_slice() {
        unknown if unknown.len() <= SHOWN => {
            for name in unknown {
                output::words(format_args!("{}", context::not_on_file(name)));
            }
        }
        unknown => output::words(format_args!(
            "{} of them are not on file; their opt-outs count for what is imported later",
            unknown.len()
        )),
    }
    let holders = &found.holders;
    if holders.is_empty() {
        return;
    }
    let what = if named == 1 { "it" } else { "one of these" };
    output::words(format_args!("{} with {what} on file:", output::counted(holders.len() as u64, "profile")));
    for HolderView { profile_url, still_disclosed } in holders.iter().take(SHOWN) {
        let left = match still_disclosed {
            0 => "nothing is disclosed".to_owned(),
            1 => "1 other detail is still disclosed".to_owned(),
            count => format!("{count} other details are still disclosed"),
        };
        output::words(format_args!("  {profile_url}: {left}"));
    }
    if holders.len() > SHOWN {
        output::words(format_args!("  and {} more; --json lists all of them", holders.len() - SHOWN));
    }
    if found.needs_approval {
        output::words(format_args!(
            "contactd: these {} people are not opted out themselves; to do that, add --yes",
            holders.len()
        ));
    } else if !person && holders.iter().any(|holder| holder.still_disclosed > 0) {
        output::words(format_args!("To opt out the whole person, add --person"));
    }
}

fn name_unknown(error: OptOutError) -> anyhow::Error {
    let OptOutError::NotOnFile(unknown) = &error else { return error.into() };
    let named: Vec<&str> = unknown.iter().take(SHOWN).map(SubjectName::text).collect();
    anyhow::anyhow!("nothing was changed: not on file: {}", named.join(", "))
}

/// Opens a list; `-` is standard input.
fn open_list(file: &Path) -> anyhow::Result<Box<dyn Read>> {
    if file == Path::new("-") {
        return Ok(Box::new(io::stdin()));
    }
    if file.is_dir() {
        bail!("{} is a directory; choose a file", file.display());
    }
    Ok(Box::new(File::open(file).with_context(|| format!("cannot read {}", file.display()))?))
}
