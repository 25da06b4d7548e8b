//! `contactd put`

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::bail;
use contactd_core::store::{Details, Import, ImportSummary, PutCounts, StoreError};
use contactd_core::{Detail, RawRecord, Timestamp};
use contactd_store_sqlite::SqliteStore;

use crate::cli::PutArgs;
use crate::commands::import::is_out;
use crate::context::Context;
use crate::output;

/// How long somebody who writes is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) async fn run(context: &Context, args: &PutArgs) -> anyhow::Result<ExitCode> {
    // The same rules as an import: what is put by hand is a row like any other.
    let profile = context.profile(&args.url)?;
    let observed_at = args.observed_at.unwrap_or_else(|| Timestamp::from_seconds(context.now().seconds()));
    let time = |at: Option<Timestamp>| at.map(|at| at.to_string()).unwrap_or_default();
    let row = RawRecord {
        profile_url: &args.url,
        phone: args.phone.as_deref().unwrap_or_default(),
        email: args.email.as_deref().unwrap_or_default(),
        phone_label: args.label.name(),
        email_label: args.label.name(),
        confidence: &args.confidence.to_string(),
        observed_at: &observed_at.to_string(),
        basis: args.basis.as_deref().unwrap_or_default(),
        expires_at: &time(args.expires_at),
        region: args.region.as_deref().unwrap_or_default(),
        source: &args.source,
    };
    let record = match row.read(&context.networks, None) {
        Ok(record) => record,
        Err(error) => {
            bail!("the {} cannot be kept ({}): {}", error.column, error.reason, advice(error.reason))
        }
    };
    // First the turn to write, which may take a while, then who has opted out by now.
    let mut import = begin(context).await?;
    let suppressions = context.suppressions().await?;
    let is_out = |detail: &Detail| is_out(&suppressions, &profile, detail.kind, &detail.value);
    if record.details.iter().any(is_out) {
        bail!("this person, number or address has opted out; `contactd unsuppress` takes that back");
    }
    let counts = import.put(&profile, &record.details)?;
    import.commit(&ImportSummary {
        source: args.source.clone(),
        rows: 1,
        counts,
        ..ImportSummary::default()
    })?;
    context.announce()?;
    if args.json {
        let PutCounts { new, changed, unchanged, .. } = counts;
        output::json(
            &serde_json::json!({ "detailsNew": new, "detailsChanged": changed, "detailsUnchanged": unchanged }),
        )?;
    }
    output::words(format_args!(
        "{} new, {} changed, {} unchanged",
        counts.new, counts.changed, counts.unchanged
    ));
    Ok(ExitCode::SUCCESS)
}

/// Begins, when nobody else writes within some seconds.
async fn begin(context: &Context) -> anyhow::Result<<SqliteStore as Details>::Import<'_>> {
    let until = Instant::now() + PATIENCE;
    loop {
        match context.store.begin_import(context.now()).await {
            Err(StoreError::Busy) if Instant::now() < until => {}
            begun => return Ok(begun?),
        }
    }
}

/// What to do about a value that was refused.
fn advice(reason: &str) -> &'static str {
    match reason {
        "phone_region_needed" => "write it with + and its country code, or name the country with --region",
        "phone_letters" => "write it in digits",
        "phone_extension" => "leave the extension out",
        "phone_several" => "put one number at a time",
        "invalid_phone" => "no such number is possible in that country; check its digits",
        "email_not_bare" => "write the bare address, without a name or mailto:",
        "invalid_email" | "invalid_email_domain" | "email_too_long" => "write it like ada@example.com",
        _ => "check how it is written",
    }
}
