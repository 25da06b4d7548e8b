//! `contactd subject`: the access report, everything about a person and who received it when.

mod page;

use std::collections::HashMap;
use std::process::ExitCode;

use anyhow::bail;
use contactd_core::store::{AuditFilter, Details, Suppressions};
use contactd_core::{AuditOutcome, AuditRecord, ContactValue, Detail, Kind, Profile, Subject, Timestamp};
use serde::Serialize;

use crate::cli::SubjectReportArgs;
use crate::commands::audit::{self, token_names};
use crate::commands::import::is_out;
use crate::commands::suppress;
use crate::context::Context;
use crate::output;

/// Everything about a person.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Report {
    pub(crate) generated_at: String,
    /// What was asked about: a profile URL, a number or an address.
    pub(crate) subject: String,
    pub(crate) suppression: Suppression,
    /// The profiles that this is about.
    pub(crate) profiles: Vec<String>,
    pub(crate) held: Vec<Held>,
    pub(crate) disclosures: Vec<Disclosure>,
    /// Requests about the person that were answered with nothing.
    pub(crate) requests_without_result: u64,
    /// Whether several people have the value: then nothing else of them is in the report.
    pub(crate) is_about_the_value_only: bool,
    /// Lines of the journal before this time are no longer kept.
    pub(crate) disclosures_known_since: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Suppression {
    pub(crate) is_suppressed: bool,
    pub(crate) since: Option<String>,
    /// Whether this is about the number or the address that was asked about, and not about the person.
    pub(crate) is_of_the_value_only: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Held {
    pub(crate) profile_url: String,
    pub(crate) kind: &'static str,
    pub(crate) value: String,
    pub(crate) label: &'static str,
    pub(crate) source: String,
    pub(crate) confidence: u8,
    pub(crate) observed_at: Option<String>,
    pub(crate) basis: Option<String>,
    pub(crate) expires_at: Option<String>,
    /// Whether its time is over: it is not given to anyone any more, and about to be removed.
    pub(crate) is_expired: bool,
    /// Whether it is given to nobody, because the person or this very value has opted out.
    pub(crate) is_suppressed: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Disclosure {
    pub(crate) time: String,
    pub(crate) profile_url: String,
    pub(crate) operation: &'static str,
    /// The name of the token that received it.
    pub(crate) token: String,
    pub(crate) token_id: String,
    pub(crate) request_id: String,
}

pub(crate) async fn run(context: &Context, args: &SubjectReportArgs) -> anyhow::Result<ExitCode> {
    let report = match (&args.url, &args.phone, &args.email) {
        (Some(url), None, None) => {
            let profile = context.profile(url)?;
            report(context, profile.as_str().to_owned(), vec![profile], None).await?
        }
        (None, Some(phone), None) => of_value(context, Kind::Phone, suppress::phone(phone)?).await?,
        (None, None, Some(email)) => of_value(context, Kind::Email, suppress::email(email)?).await?,
        _ => bail!("name one subject: a profile URL, --phone or --email"),
    };
    if args.html {
        output::data(format_args!("{}", page::render(&report)))?;
    } else if args.json {
        output::json(&report)?;
    } else {
        show(&report)?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn of_value(context: &Context, kind: Kind, value: ContactValue) -> anyhow::Result<Report> {
    let profiles = context.store.find_profiles(kind, &value).await?;
    let subject = value.expose().to_owned();
    report(context, subject, profiles, Some((kind, &value))).await
}

/// The report about some profiles. Where several have the value that was asked about, it is about that value only: whoever
/// asked may be any of them, and is not told about the others.
async fn report(
    context: &Context,
    subject: String,
    profiles: Vec<Profile>,
    value: Option<(Kind, &ContactValue)>,
) -> anyhow::Result<Report> {
    let now = context.now();
    let only = value.filter(|_| profiles.len() > 1);
    let suppressions = context.suppressions().await?;
    let mut report = Report {
        generated_at: Timestamp::from_seconds(now.seconds()).to_string(),
        subject,
        suppression: suppression(context, &profiles, value).await?,
        profiles: profiles.iter().map(|profile| profile.as_str().to_owned()).collect(),
        held: Vec::new(),
        disclosures: Vec::new(),
        requests_without_result: 0,
        is_about_the_value_only: only.is_some(),
        disclosures_known_since: contactd_journal::begins(&context.dir.audit())?.map(|at| at.to_string()),
    };
    let names = token_names(context).await?;
    let mut disclosures = Vec::new();
    for profile in &profiles {
        let mut details = context.store.list_details(profile).await?;
        details.retain(|detail| {
            only.is_none_or(|(kind, value)| {
                detail.kind == kind && value.compares_to(kind, detail.value.expose())
            })
        });
        let is_out = |detail: &Detail| is_out(&suppressions, profile, detail.kind, &detail.value);
        report.held.extend(details.into_iter().map(|detail| held(profile, is_out(&detail), detail, now)));
        let digests = context.keys.profile_digests(profile).into_iter().map(|(_, digest)| digest).collect();
        let filter = AuditFilter { profiles: Some(digests), ..AuditFilter::default() };
        audit::visit(context, &filter, |record| {
            if only.is_some_and(|(kind, _)| kind != record.operation) {
                return true;
            }
            if record.outcome == AuditOutcome::Hit.name() {
                disclosures.push((record.at, disclosure(profile, record, &names)));
            } else {
                report.requests_without_result += 1;
            }
            true
        })
        .await?;
    }
    disclosures.sort_by_key(|(at, _)| *at);
    report.disclosures = disclosures.into_iter().map(|(_, disclosure)| disclosure).collect();
    Ok(report)
}

/// Whether the one person whom it is about has opted out, or else the value that was asked about.
async fn suppression(
    context: &Context,
    profiles: &[Profile],
    value: Option<(Kind, &ContactValue)>,
) -> anyhow::Result<Suppression> {
    let person = match profiles {
        [profile] => Some(Subject::Profile(profile)),
        _ => None,
    };
    let value = value.map(|(kind, value)| Subject::Value(kind, value));
    for (subject, is_of_the_value_only) in [(person, false), (value, true)] {
        let Some(subject) = subject else { continue };
        if let Some(since) = context.store.find_suppression(&context.keys.all_digests(subject)).await? {
            let since = Some(since.to_string());
            return Ok(Suppression { is_suppressed: true, since, is_of_the_value_only });
        }
    }
    Ok(Suppression { is_suppressed: false, since: None, is_of_the_value_only: profiles.len() != 1 })
}

fn disclosure(profile: &Profile, record: AuditRecord, names: &HashMap<String, String>) -> Disclosure {
    Disclosure {
        time: record.at.to_string(),
        profile_url: profile.as_str().to_owned(),
        operation: record.operation.name(),
        token: names.get(&record.token).cloned().unwrap_or_else(|| record.token.clone()),
        token_id: record.token,
        request_id: record.request_id,
    }
}

fn held(profile: &Profile, is_suppressed: bool, detail: Detail, now: Timestamp) -> Held {
    Held {
        profile_url: profile.as_str().to_owned(),
        kind: detail.kind.name(),
        value: detail.value.expose().to_owned(),
        label: detail.label.name(),
        source: detail.source,
        confidence: detail.confidence,
        observed_at: detail.observed_at.map(|at| at.to_string()),
        basis: detail.basis,
        expires_at: detail.expires_at.map(|at| at.to_string()),
        is_expired: detail.expires_at.is_some_and(|at| at.seconds() <= now.seconds()),
        is_suppressed,
    }
}

fn show(report: &Report) -> anyhow::Result<()> {
    output::data(format_args!("About {}, {}", report.subject, report.generated_at))?;
    match &report.suppression.since {
        Some(since) if report.suppression.is_of_the_value_only => {
            output::data(format_args!(
                "{} has opted out, since {since}: it is given to nobody.",
                report.subject
            ))?;
        }
        Some(since) => output::data(format_args!("Opted out since {since}: nothing is given to anyone."))?,
        None if report.suppression.is_of_the_value_only => {
            output::data(format_args!("{} has not opted out.", report.subject))?;
        }
        None => output::data(format_args!("Not opted out."))?,
    }
    if report.is_about_the_value_only {
        output::data(format_args!(
            "{} people have it; this is about it only. Ask by profile URL for everything about one of them:",
            report.profiles.len()
        ))?;
        for profile in &report.profiles {
            output::data(format_args!("  {profile}"))?;
        }
    }
    output::data(format_args!("\nHeld:"))?;
    let row = |held: &Held| {
        let or_none = |text: &Option<String>| text.clone().unwrap_or_default();
        vec![
            held.kind.to_owned(),
            held.value.clone(),
            held.label.to_owned(),
            if held.is_suppressed { "opted out" } else { "" }.to_owned(),
            held.source.clone(),
            or_none(&held.observed_at),
            or_none(&held.basis),
            or_none(&held.expires_at),
        ]
    };
    match report.held.as_slice() {
        [] => output::data(format_args!("nothing"))?,
        held => output::table(
            &["KIND", "VALUE", "LABEL", "STATE", "SOURCE", "OBSERVED", "BASIS", "EXPIRES"],
            &held.iter().map(row).collect::<Vec<_>>(),
        )?,
    }
    output::data(format_args!("\nGiven to:"))?;
    let row = |given: &Disclosure| vec![given.time.clone(), given.operation.to_owned(), given.token.clone()];
    match (report.disclosures.as_slice(), &report.disclosures_known_since) {
        ([], Some(since)) => output::data(format_args!("nobody since {since}, when the record begins"))?,
        ([], None) => output::data(format_args!("not known: nothing has been recorded"))?,
        (given, _) => {
            output::table(&["TIME", "WHAT", "RECIPIENT"], &given.iter().map(row).collect::<Vec<_>>())?;
        }
    }
    if report.requests_without_result > 0 {
        output::data(format_args!(
            "\n{} requests were answered with nothing.",
            report.requests_without_result
        ))?;
    }
    Ok(())
}
