//! `contactd restore`

use std::process::ExitCode;

use crate::cli::RestoreArgs;
use crate::config::Config;
use crate::{output, restoring};

pub(crate) async fn run(config: &Config, args: &RestoreArgs) -> anyhow::Result<ExitCode> {
    let from = args.suppressions_from.as_deref();
    let restored =
        restoring::restore(&args.file, &config.data, from, args.accept_lost_opt_outs, &config.keys).await?;
    output::words(format_args!("{} is as it was at {}", config.data.display(), restored.made_at));
    let Some(kept) = restored.kept else {
        output::words(format_args!(
            "tokens that were revoked since then are accepted again; `contactd token list` shows them"
        ));
        return Ok(ExitCode::SUCCESS);
    };
    output::words(format_args!(
        "{} opt-outs and {} revocations of tokens made since then were kept",
        kept.withdrawals.suppressions, kept.withdrawals.revocations
    ));
    if kept.withdrawals.suppressions > 0 {
        output::words(format_args!(
            "people erased since then are held again and disclosed to nobody: erase them again"
        ));
    }
    if kept.journal {
        output::words(format_args!("the audit journal is the newer one, with everything since then"));
    } else {
        output::words(format_args!(
            "the audit journal is the backup's: there is no other that is whole and continues it"
        ));
    }
    Ok(ExitCode::SUCCESS)
}
