//! `contactd subject`: the access report, with everything about a person and who received it when.

use std::process::ExitCode;

use contactd_core::Timestamp;
use contactd_services::ReadFrom;
use contactd_services::views::{
    AccessReport, Disclosure, DisclosuresOf, HeldDetail, ReceivedBy, ReceivedDetail,
};

use crate::cli::SubjectReportArgs;
use crate::commands::audit;
use crate::context::Context;
use crate::{output, progress};

pub(crate) async fn run(context: &Context, args: &SubjectReportArgs) -> anyhow::Result<ExitCode> {
    let named = context.subject(args.url.as_deref(), args.phone.as_deref(), args.email.as_deref())?;
    let source = if args.from_journal { ReadFrom::Journal } else { ReadFrom::Index };
    let actor = context.actor_for(args.ticket.as_deref());
    let reporting = context.services.subjects.report(&actor, &named, source);
    let report = progress::during("collecting the report", reporting).await?;
    if args.html {
        output::data(format_args!("{}", contactd_admin::render_report(&report, args.all)))?;
    } else if args.json {
        output::json(&report)?;
    } else {
        show(&report, args.all)?;
        say_where_from(&report);
    }
    audit::warn_of_superseded(context).await?;
    Ok(ExitCode::SUCCESS)
}

fn show(report: &AccessReport, all: bool) -> anyhow::Result<()> {
    output::data(format_args!("About {}, {}", report.subject, report.generated_at))?;
    output::data(format_args!("{}", suppression(report)))?;
    if report.is_about_the_value_only {
        output::data(format_args!(
            "{} profiles have this value, so this report covers only the value. For everything about one person, use the \
             profile URL:",
            report.profiles.len()
        ))?;
        let profiles = report.listed_profiles(all);
        for profile in profiles {
            output::data(format_args!("  {profile}"))?;
        }
        more(report.profiles.len() - profiles.len())?;
    }
    output::data(format_args!("\nHeld:"))?;
    match report.listed_details(all) {
        [] => output::data(format_args!("nothing"))?,
        held => {
            output::table(
                &["KIND", "VALUE", "LABEL", "STATE", "SOURCE", "OBSERVED", "BASIS", "EXPIRES"],
                &held.iter().map(held_cells).collect::<Vec<_>>(),
            )?;
            more(report.held.len() - held.len())?;
        }
    }
    output::data(format_args!("\nDisclosed to:"))?;
    match (report.disclosures.as_slice(), &report.disclosures_known_since) {
        ([], _) if report.disclosures_are_of == DisclosuresOf::Unknown => output::data(format_args!(
            "nobody, as far as this alone tells: no profile holds it now. Ask by profile URL too"
        ))?,
        ([], Some(since)) => output::data(format_args!("nobody since {since}, when the record begins"))?,
        ([], None) => output::data(format_args!("unknown: nothing has been recorded"))?,
        ([first, ..], _) => disclosures(report, first, all)?,
    }
    if report.requests_without_result > 0 {
        let count = report.requests_without_result;
        output::data(format_args!("\n{} found nothing.", output::counted(count, "request")))?;
    }
    Ok(())
}

/// Says what the list of disclosures was read from.
fn say_where_from(report: &AccessReport) {
    match (report.is_from_journal, report.index_compared_at) {
        (true, _) => output::words(format_args!("read from the journal itself")),
        (false, Some(at)) => output::words(format_args!(
            "read from the index, which `contactd audit verify` last compared with the journal at {at}"
        )),
        (false, None) => output::words(format_args!(
            "read from the index, which has not been compared with the journal yet: run `contactd audit verify`, or use --from-journal"
        )),
    }
}

/// Who received what, in short and, unless that is long, each time.
fn disclosures(report: &AccessReport, first: &Disclosure, all: bool) -> anyhow::Result<()> {
    let received = |by: &ReceivedBy| by.details.iter().map(|of| received_cells(by, of)).collect::<Vec<_>>();
    output::table(
        &["RECIPIENT", "WHAT", "VALUE", "TIMES", "FIRST", "LAST"],
        &report.recipients.iter().flat_map(received).collect::<Vec<_>>(),
    )?;
    output::data(format_args!("\nEach time:"))?;
    let Some(each) = report.listed_disclosures(all) else {
        let (times, last) = (report.disclosures.len(), report.disclosures.last().unwrap_or(first));
        output::data(format_args!(
            "{times} times from {} to {}; --all lists each of them",
            first.time, last.time
        ))?;
        return Ok(());
    };
    let row = |given: &Disclosure| {
        let value = value(given.value.as_deref(), given.is_value_recorded);
        vec![given.time.to_string(), given.operation.name().to_owned(), given.token.clone(), value]
    };
    output::table(&["TIME", "WHAT", "RECIPIENT", "VALUE"], &each.iter().map(row).collect::<Vec<_>>())?;
    Ok(())
}

fn received_cells(by: &ReceivedBy, of: &ReceivedDetail) -> Vec<String> {
    vec![
        by.token.clone(),
        of.operation.name().to_owned(),
        value(of.value.as_deref(), of.is_value_recorded),
        of.times.to_string(),
        of.first_at.to_string(),
        of.last_at.to_string(),
    ]
}

/// The value that was given. The journal has only its digest.
fn value(value: Option<&str>, is_recorded: bool) -> String {
    match (value, is_recorded) {
        (Some(value), _) => value.to_owned(),
        (None, true) => "a value no longer held".to_owned(),
        (None, false) => "not recorded".to_owned(),
    }
}

fn more(count: usize) -> anyhow::Result<()> {
    if count > 0 {
        output::data(format_args!("  and {count} more; --all lists them"))?;
    }
    Ok(())
}

fn suppression(report: &AccessReport) -> String {
    let subject = &report.subject;
    match (report.suppression.since, report.suppression.is_of_the_value_only) {
        (Some(since), true) => format!("{subject} has been opted out since {since}; it is not disclosed."),
        (Some(since), false) => format!("Opted out since {since}; nothing is disclosed."),
        (None, true) => format!("{subject} is not opted out."),
        (None, false) if report.held.iter().any(|held| held.is_suppressed) => {
            "The person is not opted out; some of their details are.".to_owned()
        }
        (None, false) => "Not opted out.".to_owned(),
    }
}

fn held_cells(held: &HeldDetail) -> Vec<String> {
    let time = |at: Option<Timestamp>| at.map(|at| at.to_string()).unwrap_or_default();
    vec![
        held.kind.name().to_owned(),
        held.value.clone(),
        held.label.name().to_owned(),
        match (held.kept_for_undo_until, held.is_suppressed) {
            (Some(until), _) => format!("former, kept for undo until {until}"),
            (None, true) => "opted out".to_owned(),
            (None, false) => String::new(),
        },
        held.source.clone(),
        time(held.observed_at),
        held.basis.clone().unwrap_or_default(),
        time(held.expires_at),
    ]
}
