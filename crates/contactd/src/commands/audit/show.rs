//! `contactd audit show`

use std::process::ExitCode;

use contactd_core::{ContactValue, Kind, SubjectNameError};
use contactd_services::AuditQuery;
use contactd_services::views::{EventView, Recipient};

use super::listing::{Form, Listing};
use super::{follow, warn, warn_of_superseded};
use crate::cli::AuditShowArgs;
use crate::context::Context;
use crate::misuse::Misuse;
use crate::output;

pub(super) async fn run(context: &Context, args: &AuditShowArgs) -> anyhow::Result<ExitCode> {
    let now = context.clock.now();
    if let (Some(since), Some(until)) = (args.since, args.until)
        && since.when(now) >= until.when(now)
    {
        return Err(Misuse("--since is not before --until, so nothing can match".to_owned()).into());
    }
    let query = AuditQuery {
        token: args.token.clone(),
        profile: args.profile.as_deref().map(|url| context.profile(url)).transpose()?,
        value: value(args)?,
        since: args.since,
        until: args.until,
        outcome: args.outcome.clone(),
        operation: args.operation.clone(),
        request: args.request.clone(),
        actor: args.actor.clone(),
        limit: args.limit,
    };
    let form = match (args.json, args.csv) {
        (true, _) => Form::Json,
        (false, true) => Form::Csv,
        (false, false) => Form::Text,
    };
    if args.follow {
        return follow::run(context, query, args.after.clone(), form).await;
    }
    match args.by {
        Some(_) => recipients(context, &query, form).await?,
        None => events(context, &query, form).await?,
    }
    warn_of_superseded(context).await?;
    Ok(ExitCode::SUCCESS)
}

fn value(args: &AuditShowArgs) -> anyhow::Result<Option<(Kind, ContactValue)>> {
    Ok(match (&args.phone, &args.email) {
        (Some(phone), _) => {
            Some((Kind::Phone, ContactValue::known_phone(phone).map_err(SubjectNameError::Phone)?))
        }
        (None, Some(email)) => {
            Some((Kind::Email, ContactValue::email(email).map_err(SubjectNameError::Email)?))
        }
        (None, None) => None,
    })
}

async fn events(context: &Context, query: &AuditQuery, form: Form) -> anyhow::Result<()> {
    let mut out = Listing::begin(form)?;
    let mut failed = None;
    let visit = |event: EventView| {
        failed = out.add(&event).err();
        failed.is_none()
    };
    let index = context.services.audits.show(&context.actor, query, visit).await?;
    warn(&index);
    match failed {
        Some(error) => Err(error),
        None => Ok(out.end()?),
    }
}

async fn recipients(context: &Context, query: &AuditQuery, form: Form) -> anyhow::Result<()> {
    let (recipients, index) = context.services.audits.recipients(&context.actor, query).await?;
    warn(&index);
    let rows: Vec<Vec<String>> = recipients.iter().map(cells).collect();
    match form {
        Form::Json => output::json(&recipients)?,
        Form::Csv => {
            const COLUMNS: [&str; 8] =
                ["token", "tokenName", "requests", "hits", "misses", "refused", "firstAt", "lastAt"];
            output::csv(COLUMNS, rows)?;
        }
        Form::Text if rows.is_empty() => output::words(format_args!("nothing in the journal matches")),
        Form::Text => {
            output::table(
                &["TOKEN", "NAME", "REQUESTS", "HITS", "MISSES", "REFUSED", "FIRST", "LAST"],
                &rows,
            )?;
        }
    }
    Ok(())
}

fn cells(of: &Recipient) -> Vec<String> {
    let counts = [of.requests, of.hits, of.misses, of.refused].map(|count| count.to_string());
    let times = [of.first_at, of.last_at].map(|time| time.to_string());
    let names = [of.token.clone(), of.token_name.clone().unwrap_or_default()];
    names.into_iter().chain(counts).chain(times).collect()
}
