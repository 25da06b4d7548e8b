//! `contactd restore`

use std::process::ExitCode;

use crate::cli::RestoreArgs;
use crate::config::Config;
use crate::context::Context;
use crate::misuse::Misuse;
use crate::output;
use crate::progress::Working;
use crate::restoring;

pub(crate) async fn run(config: Config, args: &RestoreArgs) -> anyhow::Result<ExitCode> {
    if config.is_cluster() {
        let how = "a backup is restored to a data directory: leave --store out. A database is restored with its own tools";
        return Err(Misuse(how.to_owned()).into());
    }
    let working = Working::start("reading the backup");
    let restored = restoring::restore(args, &config.data, &config.keys, &|step| working.show(step)).await;
    drop(working);
    let restored = restored?;
    for path in &restored.removed {
        output::words(format_args!("removed {}, which a killed restore had left", path.display()));
    }
    if restored.is_of_node {
        let dir = &config.data;
        output::words(format_args!(
            "this was the backup of a node, of {}: {} has its digest keys now. Start it with --store; it joins the cluster as a new node, and copies everything",
            restored.made_at,
            dir.display()
        ));
        output::words(format_args!(
            "the journal of that node is in {}; `contactd audit verify --dir` verifies it",
            dir.join(restoring::NODE_JOURNAL).display()
        ));
        return Ok(ExitCode::SUCCESS);
    }
    let context = Context::open(config).await?;
    output::changed(&context.place, format_args!("restored to the state of {}", restored.made_at));
    output::unrecorded(&context.services.audits.collected().await);
    output::words(format_args!(
        "the audit journal begins anew, with a root of its own: note it down with `contactd audit root`, beside the old one"
    ));
    let Some(kept) = restored.kept else {
        output::words(format_args!(
            "tokens that were revoked, ended or restricted since then are accepted as before; check them with `contactd token list`"
        ));
        return Ok(ExitCode::SUCCESS);
    };
    output::words(format_args!(
        "{} and {} of tokens made since then were kept",
        output::counted(kept.withdrawals.suppressions, "opt-out"),
        output::counted(kept.withdrawals.revocations, "revocation")
    ));
    if kept.withdrawals.restrictions > 0 {
        output::words(format_args!(
            "{} kept the earlier end or the fewer scopes that were set since then",
            output::counted(kept.withdrawals.restrictions, "token")
        ));
    }
    if kept.withdrawals.accounts > 0 {
        output::words(format_args!(
            "{} disabled or revoked since then stayed so; passwords and roles are those of the backup",
            output::counted(kept.withdrawals.accounts, "account")
        ));
    }
    if kept.withdrawals.suppressions > 0 {
        output::words(format_args!(
            "details of people erased since then are held again, but not disclosed: erase these people again"
        ));
    }
    if kept.journal {
        output::words(format_args!("the newer audit journal was kept; it includes everything since then"));
    } else {
        output::words(format_args!(
            "the audit journal is the backup's: no other journal was found that is whole and continues it"
        ));
    }
    Ok(ExitCode::SUCCESS)
}
