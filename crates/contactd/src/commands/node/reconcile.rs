//! `contactd node reconcile`

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use contactd_cluster::{AccountList, Reconcile, Reconciled, Reconciling};

use crate::cli::NodeReconcileArgs;
use crate::context::Context;
use crate::{output, progress};

pub(crate) async fn run(context: &Context, args: &NodeReconcileArgs) -> anyhow::Result<ExitCode> {
    context.require_node()?;
    let reconciling = Reconciling {
        database: Arc::clone(context.database.as_ref().context("there is no cluster")?),
        local: Arc::clone(context.files.as_ref().context("there is no node here")?),
        node: context.node.clone(),
    };
    let what = match (args.yes, args.accept_lost_opt_outs) {
        (true, _) => Reconcile::PutBack,
        (_, true) => Reconcile::AcceptLost,
        _ => Reconcile::Look,
    };
    let run = reconciling.run(&context.actor, what, context.clock.now());
    let reconciled = progress::during("comparing what this node holds with the database", run).await?;
    if args.json {
        output::json(&reconciled)?;
    } else {
        show(&reconciled, what)?;
    }
    if reconciled.is_done {
        output::unrecorded(&context.services.audits.collected(&[]).await);
    }
    Ok(if reconciled.is_done || reconciled.faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn show(reconciled: &Reconciled, what: Reconcile) -> anyhow::Result<()> {
    let Reconciled { faults, holds_state, differences, accounts, is_done } = reconciled;
    if faults.is_empty() {
        return Ok(output::data(format_args!("nothing to do: the database holds what contactd stored"))?);
    }
    faults.iter().try_for_each(|fault| output::data(format_args!("WRONG {fault}")))?;
    let rows: Vec<Vec<String>> = differences
        .iter()
        .map(|row| vec![row.what.to_owned(), row.id.clone(), format!("{:?}", row.how).to_lowercase()])
        .collect();
    if !rows.is_empty() {
        output::table(&["WHAT", "ID", "IN THE DATABASE"], &rows)?;
    }
    if !holds_state {
        output::data(format_args!(
            "this node holds nothing yet: the tokens and opt-outs of the database are accepted as they are"
        ))?;
    }
    if let Some(accounts) = accounts {
        show_accounts(accounts)?;
    }
    output::data(match (is_done, what) {
        (true, Reconcile::AcceptLost) => {
            format_args!("given up: only what the database has is in force here")
        }
        (true, _) => format_args!("put back and sealed"),
        (false, Reconcile::AcceptLost) => format_args!("nothing was changed: the database has lost nothing"),
        (false, _) => format_args!("nothing was changed: look at this list, and run it again with --yes"),
    })?;
    Ok(())
}

fn show_accounts(AccountList { users, admin_tokens, .. }: &AccountList) -> anyhow::Result<()> {
    output::data(format_args!("accounts as the database has them, which no node holds:"))?;
    let state = |is_good, good: &str, bad: &str| if is_good { good.to_owned() } else { bad.to_owned() };
    let users = users.iter().map(|user| {
        vec![
            "user".to_owned(),
            user.name.clone(),
            user.role.clone(),
            state(user.is_enabled, "enabled", "disabled"),
        ]
    });
    let tokens = admin_tokens.iter().map(|token| {
        let name = format!("{} ({})", token.id, token.name);
        vec!["admin token".to_owned(), name, token.role.clone(), state(token.is_live, "live", "ended")]
    });
    output::table(&["WHAT", "NAME", "ROLE", "STATE"], &users.chain(tokens).collect::<Vec<_>>())?;
    Ok(())
}
