//! `contactd remove`

use std::process::ExitCode;

use contactd_core::store::Details;
use contactd_core::{ContactValue, Detail, Kind};

use crate::cli::RemoveArgs;
use crate::commands::suppress;
use crate::context::Context;
use crate::output;

pub(crate) async fn run(context: &Context, args: &RemoveArgs) -> anyhow::Result<ExitCode> {
    let profile = context.profile(&args.url)?;
    let mut values: Vec<(Kind, ContactValue)> = Vec::new();
    for phone in &args.phone {
        values.push((Kind::Phone, suppress::phone(phone)?));
    }
    for email in &args.email {
        values.push((Kind::Email, suppress::email(email)?));
    }
    let is_meant = |detail: &Detail| {
        let is_value = |(kind, value): &(Kind, ContactValue)| *kind == detail.kind && *value == detail.value;
        (values.is_empty() || values.iter().any(is_value))
            && args.source.as_ref().is_none_or(|source| *source == detail.source)
    };
    let removed = context.store.remove_details(&profile, is_meant).await?;
    context.announce()?;
    if args.json {
        output::json(&serde_json::json!({ "detailsRemoved": removed }))?;
    }
    match removed {
        0 => output::words(format_args!("nothing of that kind is held; nothing changed")),
        1 => output::words(format_args!("1 detail removed")),
        more => output::words(format_args!("{more} details removed")),
    }
    Ok(ExitCode::SUCCESS)
}
