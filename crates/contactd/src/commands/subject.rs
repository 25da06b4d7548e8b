//! `contactd subject`: the access report, everything about a person and who received it when.

mod page;

use std::process::ExitCode;

use anyhow::bail;
use contactd_core::store::{AuditFilter, AuditIndex, Details, Suppressions};
use contactd_core::{ContactValue, Detail, Kind, Profile, Subject, Timestamp};
use serde::Serialize;

use crate::cli::SubjectReportArgs;
use crate::commands::audit::token_names;
use crate::commands::suppress;
use crate::context::Context;
use crate::{indexer, output};

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
    /// Lines of the journal before this time are no longer kept.
    pub(crate) disclosures_known_since: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Suppression {
    pub(crate) is_suppressed: bool,
    pub(crate) since: Option<String>,
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
    indexer::catch_up(&context.store, &context.dir.audit()).await?;
    let report = match (&args.url, &args.phone, &args.email) {
        (Some(url), None, None) => {
            let profile = context.profile(url)?;
            report(
                context,
                profile.as_str().to_owned(),
                Subject::Profile(&profile),
                vec![profile.clone()],
                None,
            )
            .await?
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
    report(context, subject, Subject::Value(kind, &value), profiles, Some(kind)).await
}

/// The report about some profiles; `only` of details of a kind where the subject is a value.
async fn report(
    context: &Context,
    subject: String,
    suppressed: Subject<'_>,
    profiles: Vec<Profile>,
    only: Option<Kind>,
) -> anyhow::Result<Report> {
    let now = context.now();
    let since = context.store.find_suppression(&context.keys.all_digests(suppressed)).await?;
    let mut report = Report {
        generated_at: Timestamp::from_seconds(now.seconds()).to_string(),
        subject,
        suppression: Suppression { is_suppressed: since.is_some(), since: since.map(|at| at.to_string()) },
        profiles: profiles.iter().map(|profile| profile.as_str().to_owned()).collect(),
        held: Vec::new(),
        disclosures: Vec::new(),
        requests_without_result: 0,
        disclosures_known_since: contactd_journal::begins(&context.dir.audit())?.map(|at| at.to_string()),
    };
    let names = token_names(context).await?;
    for profile in &profiles {
        let details = context.store.list_details(profile).await?;
        report.held.extend(details.into_iter().map(|detail| held(profile, detail, now)));
        let digests = context.keys.profile_digests(profile).into_iter().map(|(_, digest)| digest).collect();
        let filter = AuditFilter { profiles: Some(digests), ..AuditFilter::default() };
        context
            .store
            .visit_audit(&filter, |record| {
                if only.is_some_and(|kind| kind != record.operation) {
                    return true;
                }
                if record.outcome != "hit" {
                    report.requests_without_result += 1;
                    return true;
                }
                report.disclosures.push(Disclosure {
                    time: record.at.to_string(),
                    profile_url: profile.as_str().to_owned(),
                    operation: record.operation.name(),
                    token: names.get(&record.token).cloned().unwrap_or_else(|| record.token.clone()),
                    token_id: record.token,
                    request_id: record.request_id,
                });
                true
            })
            .await?;
    }
    report.disclosures.sort_by(|a, b| a.time.cmp(&b.time));
    Ok(report)
}

fn held(profile: &Profile, detail: Detail, now: Timestamp) -> Held {
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
    }
}

fn show(report: &Report) -> anyhow::Result<()> {
    output::data(format_args!("About {}, {}", report.subject, report.generated_at))?;
    match &report.suppression.since {
        Some(since) => output::data(format_args!("Opted out since {since}: nothing is given to anyone."))?,
        None => output::data(format_args!("Not opted out."))?,
    }
    output::data(format_args!("\nHeld:"))?;
    let row = |held: &Held| {
        let or_none = |text: &Option<String>| text.clone().unwrap_or_default();
        vec![
            held.kind.to_owned(),
            held.value.clone(),
            held.label.to_owned(),
            held.source.clone(),
            or_none(&held.observed_at),
            or_none(&held.basis),
            or_none(&held.expires_at),
        ]
    };
    match report.held.as_slice() {
        [] => output::data(format_args!("nothing"))?,
        held => output::table(
            &["KIND", "VALUE", "LABEL", "SOURCE", "OBSERVED", "BASIS", "EXPIRES"],
            &held.iter().map(row).collect::<Vec<_>>(),
        )?,
    }
    output::data(format_args!("\nGiven to:"))?;
    let row = |given: &Disclosure| vec![given.time.clone(), given.operation.to_owned(), given.token.clone()];
    match report.disclosures.as_slice() {
        [] => output::data(format_args!("nobody"))?,
        given => {
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
