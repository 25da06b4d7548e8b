//! `contactd erase`: suppresses a person and removes all their details.

use std::process::ExitCode;

use anyhow::Context as _;
use contactd_core::{Kind, Progress, SubjectName};
use contactd_services::views::{ErasedProfileView, SharedView};
use contactd_services::{Approval, EraseError, EraseOptions, Erased};
use serde_json::{Value, json};

use crate::cli::EraseArgs;
use crate::context::{self, Context};
use crate::{approval, control, output, progress};

pub(crate) async fn run(context: &Context, args: &EraseArgs) -> anyhow::Result<ExitCode> {
    let named = context.subject(args.url.as_deref(), args.phone.as_deref(), args.email.as_deref())?;
    let actor = context.actor_for(args.ticket.as_deref());
    let subjects = &context.services.subjects;
    if args.dry_run {
        let erased = subjects.preview_erasure(&actor, &named).await?;
        if args.json {
            output::json(&report(&erased, args, false))?;
        }
        output::words(format_args!(
            "dry run, nothing was changed: {} of {} would be removed",
            output::counted(erased.details(), "detail"),
            output::counted(erased.profiles.len() as u64, "profile")
        ));
        name_profiles(&erased);
        return Ok(ExitCode::SUCCESS);
    }
    let waiting = progress::saying_once(
        "suppressed, waiting for the import or the command that is writing to the store",
    );
    let show = |step| match step {
        Progress::Suppressed { is_confirmed: false } => output::words(format_args!(
            "contactd: the suppression is committed, but the running server has not confirmed it yet"
        )),
        step => waiting(step),
    };
    let ask = Approval::Ask(|profiles| approval::ask("Erase", profiles));
    let approval = if args.yes { Approval::Given } else { ask };
    let options = EraseOptions { values: args.values, must_exist: args.must_exist, approval };
    let erased = progress::during("erasing", subjects.erase(&actor, &named, options, &show)).await;
    let is_begun = erased.as_ref().err().is_none_or(EraseError::has_begun);
    let console = if is_begun { delete_console_files(context) } else { Ok(()) };
    let mut erased = erased.map_err(|error| with_advice(context, error))?;
    let left = erased.done.left.take();
    if args.json {
        output::json(&report(&erased.done, args, erased.confirmed.is_ok()))?;
    }
    if erased.done.details() == 0 {
        output::changed(&context.place, format_args!("suppressed; there was nothing to remove"));
        output::words(format_args!("{}", context::not_on_file(&named)));
    } else {
        let whom = match erased.done.profiles.len() {
            1 => "the person is suppressed".to_owned(),
            people => format!("{people} people are suppressed"),
        };
        let from = match (&left, &context.database) {
            (Some(_), _) => "",
            (None, Some(_)) => " from the database and from the copies of all nodes",
            (None, None) => " from every file",
        };
        let details = output::counted(erased.done.details(), "detail");
        output::changed(&context.place, format_args!("{details} removed{from}; {whom}"));
        output::words(format_args!(
            "earlier backups, exports, rejects files and outputs of `enrich` may still contain them"
        ));
        if context.database.is_some() {
            output::words(format_args!(
                "the database keeps removed rows on its own disks for a while: in free space of its table files, in its write-ahead log, \
                 and in archives and backups. Files of the console on other nodes are kept for at most a day"
            ));
        }
    }
    name_profiles(&erased.done);
    if let SubjectName::Value(_, value) = &named {
        output::words(format_args!("{} is opted out itself too, under any profile", value.expose()));
    }
    output::remarks(&erased.notes, &erased.recorded);
    erased.confirmed?;
    if let Some(left) = left {
        return Err(left.into());
    }
    console?;
    Ok(ExitCode::SUCCESS)
}

/// Deletes what was uploaded to the console, and what it made, on this machine.
fn delete_console_files(context: &Context) -> anyhow::Result<()> {
    let dir = context.dir.console();
    contactd_admin::delete_personal_files(&dir, control::is_served(&context.dir)).with_context(|| {
        format!(
            "the person is erased, but files in {} may still contain them; delete these yourself",
            dir.display()
        )
    })
}

fn with_advice(context: &Context, error: EraseError) -> anyhow::Error {
    match &error {
        EraseError::NeedsApproval(_) => {
            anyhow::anyhow!("{error} ({}). To erase all of them, add --yes", context.place)
        }
        _ => error.into(),
    }
}

/// What was erased, as JSON.
fn report(erased: &Erased, args: &EraseArgs, confirmed: bool) -> Value {
    json!({
        "detailsRemoved": if args.dry_run { 0 } else { erased.details() },
        "suppressed": !args.dry_run,
        "confirmed": confirmed,
        "onFile": erased.details() > 0,
        "dryRun": args.dry_run,
        "profiles": erased.profiles.iter().filter(|erased| erased.details > 0).collect::<Vec<_>>(),
        "sharedWith": erased.shared,
    })
}

/// Names who was erased, and who has a number or an address in common with them.
fn name_profiles(erased: &Erased) {
    for ErasedProfileView { profile_url, details } in erased.profiles.iter().filter(|of| of.details > 0) {
        output::words(format_args!("  {profile_url}: {}", output::counted(*details, "detail")));
    }
    for SharedView { profile_url, kind } in &erased.shared {
        let what = match kind {
            Kind::Phone => "a phone number",
            Kind::Email => "an e-mail address",
        };
        output::words(format_args!(
            "not erased: {profile_url} has {what} in common. If it is the same person, erase it too"
        ));
    }
}
