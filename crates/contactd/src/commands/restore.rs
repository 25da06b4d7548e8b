//! `contactd restore`

use std::process::ExitCode;

use contactd_core::Finding;
use contactd_core::store::TakenOver;

use crate::cli::RestoreArgs;
use crate::config::Config;
use crate::context::Context;
use crate::misuse::Misuse;
use crate::output;
use crate::progress::Working;
use crate::restoring::{self, LiveAgain};

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
            "the key of second factors is not in a backup: if somebody has one, copy keys/second-factor.key of another node"
        ));
        output::words(format_args!(
            "the journal of that node is in {}; `contactd audit verify --dir` verifies it",
            dir.join(restoring::NODE_JOURNAL).display()
        ));
        return Ok(ExitCode::SUCCESS);
    }
    let context = Context::open(config).await?;
    output::changed(&context.place, format_args!("restored to the state of {}", restored.made_at));
    output::unrecorded(&context.services.audits.collected(&[]).await);
    output::words(format_args!(
        "the audit journal begins anew, with a root of its own: note it down with `contactd audit root`, beside the old one"
    ));
    if let Some(Finding { message, advice, .. }) = context.services.health.locked_out().await? {
        output::words(format_args!("{message}; {}", advice.unwrap_or_default()));
    }
    let Some(kept) = restored.kept else {
        name_what_is_live(&restored.live);
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
    name_accounts_kept(&kept.withdrawals);
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

/// Says what of the newer state of users and admin tokens was kept.
fn name_accounts_kept(taken: &TakenOver) {
    let kept = [
        (taken.ended_accounts, "disabled or revoked account"),
        (taken.new_accounts, "new account"),
        (taken.roles, "role"),
        (taken.passwords, "password"),
        (taken.second_factors, "second factor"),
    ];
    let kept = kept.into_iter().filter(|(count, _)| *count > 0);
    let kept: Vec<String> = kept.map(|(count, what)| output::counted(count, what)).collect();
    if !kept.is_empty() {
        output::words(format_args!(
            "of accounts, this was kept as it became since then: {}",
            kept.join(", ")
        ));
    }
}

/// Names who and what the backup makes live again.
fn name_what_is_live(live: &LiveAgain) {
    output::words(format_args!(
        "the following is accepted as it was then, also if it was disabled, revoked, restricted or given another role, password or \
         second factor since; check it, with `contactd user list`, `admin-token list` and `token list`"
    ));
    for (what, names) in
        [("users", &live.users), ("admin tokens", &live.admin_tokens), ("tokens", &live.tokens)]
    {
        let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        output::words(format_args!("  {what}: {names}"));
    }
}
