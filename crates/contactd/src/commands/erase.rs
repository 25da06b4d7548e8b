//! `contactd erase`: suppresses a person and removes all their details.

use std::process::ExitCode;

use contactd_core::Progress;

use crate::cli::EraseArgs;
use crate::context::Context;
use crate::output;
use crate::progress::Waiting;

pub(crate) async fn run(context: &Context, args: &EraseArgs) -> anyhow::Result<ExitCode> {
    let profile = context.profile(&args.url)?;
    let waiting =
        Waiting::new("suppressed, waiting for the import or the command that is writing to the store");
    let show = |step| match step {
        Progress::Suppressed { is_confirmed: false } => output::words(format_args!(
            "contactd: the suppression is committed, but the running server has not confirmed it yet"
        )),
        step => waiting.show(step),
    };
    let actor = context.actor_for(args.ticket.as_deref());
    let erased = context.services.subjects.erase(&actor, &profile, args.values, &show).await?;
    let removed = erased.done.details;
    if args.json {
        output::json(
            &serde_json::json!({ "detailsRemoved": removed, "suppressed": true, "confirmed": erased.confirmed.is_ok() }),
        )?;
    }
    output::words(format_args!(
        "{} removed from every file of the data directory; the person is suppressed. Earlier backups, exports, rejects files \
         and outputs of `enrich` may still contain them",
        output::counted(removed, "detail")
    ));
    output::unrecorded(&erased.recorded);
    erased.confirmed?;
    Ok(ExitCode::SUCCESS)
}
