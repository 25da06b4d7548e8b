//! `contactd erase`: everything about a person goes, and they stay out.

use std::process::ExitCode;

use anyhow::{Context as _, bail};
use contactd_core::Subject;
use contactd_core::store::{Details, Suppressions};

use crate::cli::EraseArgs;
use crate::commands::backup;
use crate::context::Context;
use crate::output;

pub(crate) async fn run(context: &Context, args: &EraseArgs) -> anyhow::Result<ExitCode> {
    let profile = context.profile(&args.url)?;
    let held = context.store.list_details(&profile).await?;
    // Out first: no import brings back what is removed next.
    let mut subjects = vec![Subject::Profile(&profile)];
    if args.values {
        subjects.extend(held.iter().map(|detail| Subject::Value(detail.kind, &detail.value)));
    }
    let digests: Vec<_> = subjects.into_iter().filter_map(|subject| context.keys.digest(subject)).collect();
    context.store.suppress(&digests, context.now()).await?;
    let removed = context.store.remove_details(&profile, |_| true).await.context(
        "the person is suppressed, and the details are not removed yet; run this again when the store is free",
    )?;
    context.announce()?;
    context.store.wipe_gaps().context(
        "the details are removed and nothing discloses them, but their traces in the file are not; run this again",
    )?;
    // What was removed still stands in the write-ahead log until that is emptied.
    if !context.store.scrub()? {
        bail!(
            "the details are removed and nothing discloses them, but a reader keeps them in the write-ahead log; run \
             this again in a moment"
        );
    }
    if !backup::remove_abandoned(&context.dir)? {
        bail!(
            "the details are removed and nothing discloses them, but a backup is being made and its copy still holds them; \
             run this again when it is done"
        );
    }
    if args.json {
        output::json(&serde_json::json!({ "detailsRemoved": removed, "suppressed": true }))?;
    }
    output::words(format_args!(
        "{removed} details removed from every file of the data directory; the person is suppressed. Backups that were \
         made before still hold them"
    ));
    Ok(ExitCode::SUCCESS)
}
