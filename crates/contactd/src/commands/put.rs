//! `contactd put`

use std::process::ExitCode;

use anyhow::bail;
use contactd_core::{RawRecord, RecordError, Timestamp};
use contactd_services::CorrectionError;

use crate::cli::PutArgs;
use crate::context::Context;
use crate::{output, progress};

pub(crate) async fn run(context: &Context, args: &PutArgs) -> anyhow::Result<ExitCode> {
    let profile = context.profile(&args.url)?;
    let observed_at = args.observed_at.unwrap_or(Timestamp::from_seconds(context.clock.now().seconds()));
    let expires_at = args.expires_at.map(|at| at.to_string()).unwrap_or_default();
    let row = RawRecord {
        profile_url: profile.as_str(),
        phone: args.phone.as_deref().unwrap_or_default(),
        email: args.email.as_deref().unwrap_or_default(),
        phone_label: args.label.name(),
        email_label: args.label.name(),
        confidence: &args.confidence.to_string(),
        observed_at: &observed_at.to_string(),
        basis: args.basis.as_deref().unwrap_or_default(),
        expires_at: &expires_at,
        region: args.region.as_deref().unwrap_or_default(),
        source: &args.source,
    };
    let put = context.services.subjects.correct(&context.actor, &row, &progress::waiting()).await;
    let put = match put {
        Err(CorrectionError::Record(error)) => {
            bail!("the {} cannot be saved ({}): {}", error.column, error.reason, advice(error))
        }
        put => put?,
    };
    let counts = put.done;
    if args.json {
        output::json(&serde_json::json!({
            "detailsNew": counts.new, "detailsChanged": counts.changed, "detailsUnchanged": counts.unchanged
        }))?;
    }
    let (new, changed, unchanged) = (counts.new, counts.changed, counts.unchanged);
    output::changed(&context.place, format_args!("{new} new, {changed} changed, {unchanged} unchanged"));
    output::remarks(&put.notes, &put.recorded);
    put.confirmed?;
    Ok(ExitCode::SUCCESS)
}

/// What to do about a value that was refused.
fn advice(error: RecordError) -> &'static str {
    match error.reason {
        "phone_region_needed" => "write it with + and its country code, or set the country with --region",
        _ => error.advice(),
    }
}
