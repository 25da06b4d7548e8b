//! `contactd node list`, `forget`, `verify`, `reconcile`

mod reconcile;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use contactd_cluster::{ListedNode, Nodes, Verified};
use contactd_core::hex;
use contactd_core::store::Maintenance as _;
use contactd_core::store::copying::CopyDigest;
use contactd_services::hooks_found;
use serde_json::{Value, json};

use crate::cli::{NodeCommand, NodeForgetArgs};
use crate::context::Context;
use crate::{output, progress};

/// How long `verify` waits for a copy that is behind.
const COMPARE_TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) async fn run(context: &Context, command: &NodeCommand) -> anyhow::Result<ExitCode> {
    let database = context.database.as_ref().context("there is no cluster")?;
    let nodes = Nodes::new(Arc::clone(database));
    match command {
        NodeCommand::List(args) => list(&nodes, args.json).await,
        NodeCommand::Forget(args) => forget(context, &nodes, args).await,
        NodeCommand::Verify(args) => {
            context.require_node()?;
            let files = context.files.as_ref().context("there is no node here")?;
            let verifying = contactd_cluster::verify(files, database, COMPARE_TIMEOUT);
            let verified = progress::during("comparing the copy with the database", verifying).await?;
            let mut state = database.check_state(&[]).await?;
            state.extend(database.find_hooks().await?.map(|hooks| hooks_found(&hooks)));
            show(&verified, &state, args.json)
        }
        NodeCommand::Reconcile(args) => reconcile::run(context, args).await,
    }
}

async fn list(nodes: &Nodes, json: bool) -> anyhow::Result<ExitCode> {
    let nodes = nodes.list().await?;
    if json {
        output::json(&nodes)?;
    } else if nodes.is_empty() {
        output::words(format_args!("there are no nodes yet; start one with `contactd serve`"));
    } else {
        let rows: Vec<_> = nodes.iter().map(cells).collect();
        let header = [
            "ID", "NAME", "VERSION", "STATE", "LEASE", "ACCESS", "DETAILS", "BEHIND", "HELD", "SEEN",
            "JOINED",
        ];
        output::table(&header, &rows)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn cells(node: &ListedNode) -> Vec<String> {
    vec![
        node.id.clone(),
        node.name.clone(),
        node.version.clone(),
        node.state.name().to_owned(),
        format!("{:.1} s", node.lease_left_ms as f64 / 1000.0),
        node.access_number.to_string(),
        node.details_number.to_string(),
        (node.access_behind + node.details_behind).to_string(),
        node.held.to_string(),
        node.seen_at.to_string(),
        node.joined_at.to_string(),
    ]
}

async fn forget(context: &Context, nodes: &Nodes, args: &NodeForgetArgs) -> anyhow::Result<ExitCode> {
    let forgetting = nodes.forget(&context.actor, &args.id, args.yes, context.clock.now());
    let name = progress::during("waiting for the end of its lease", forgetting).await?;
    output::changed(
        &context.place,
        format_args!("node {name} is forgotten: no change waits for it, and nothing is kept for it"),
    );
    output::unrecorded(&context.services.audits.collected(&[]).await);
    output::words(format_args!(
        "it still has its files: remove its data directory, or start it again, and it copies everything anew"
    ));
    Ok(ExitCode::SUCCESS)
}

/// A digest, as JSON.
fn shown(digest: &CopyDigest) -> Value {
    json!({
        "accessNumber": digest.access_number,
        "detailsNumber": digest.details_number,
        "profiles": digest.profiles,
        "details": digest.details,
        "tokens": digest.tokens,
        "suppressions": digest.suppressions,
        "detailsDigest": hex::encode(&digest.details_digest),
        "accessDigest": hex::encode(&digest.access_digest),
    })
}

fn show(verified: &Verified, faults: &[String], json: bool) -> anyhow::Result<ExitCode> {
    let (copy, database, words) = match verified {
        Verified::Equal(both) => (both, both, "equal: the copy holds what the database holds"),
        Verified::Different { copy, database } if copy.access_digest != database.access_digest => (
            copy,
            database,
            "DIFFERENT: the tokens and opt-outs in the database are not those that this node holds. Keep this data directory: `contactd node \
             reconcile` shows which they are, and with --yes puts back what this node holds",
        ),
        Verified::Different { copy, database }
            if database.profiles < copy.profiles || database.details < copy.details =>
        {
            (
                copy,
                database,
                "DIFFERENT: the database holds less than this copy, which may be the only place that has the rest. Keep this data directory as \
                 it is, and find out first what removed it from the database. If the database is right: stop this node, `contactd node forget` \
                 its id (`contactd node list` shows it), and start it again: it copies everything anew",
            )
        }
        Verified::Different { copy, database } => (
            copy,
            database,
            "DIFFERENT: stop this node, `contactd node forget` its id (`contactd node list` shows it), and start it again: it copies everything anew",
        ),
        Verified::NotReached { copy, database } => (
            copy,
            database,
            "not compared: the copy does not follow the database; look at the log of the server",
        ),
    };
    let is_equal = matches!(verified, Verified::Equal(_)) && faults.is_empty();
    if json {
        output::json(
            &json!({ "isEqual": is_equal, "faults": faults, "copy": shown(copy), "database": shown(database) }),
        )?;
    } else {
        let row = |name: &str, of: fn(&CopyDigest) -> String| vec![name.to_owned(), of(copy), of(database)];
        let rows = vec![
            row("change of tokens and opt-outs", |digest| digest.access_number.to_string()),
            row("change of details", |digest| digest.details_number.to_string()),
            row("profiles", |digest| digest.profiles.to_string()),
            row("details", |digest| digest.details.to_string()),
            row("tokens", |digest| digest.tokens.to_string()),
            row("opt-outs", |digest| digest.suppressions.to_string()),
            row("digest of details", |digest| hex::encode(&digest.details_digest[..8])),
            row("digest of tokens and opt-outs", |digest| hex::encode(&digest.access_digest[..8])),
        ];
        output::table(&["", "COPY", "DATABASE"], &rows)?;
        faults.iter().try_for_each(|fault| output::data(format_args!("WRONG {fault}")))?;
        output::data(format_args!("{words}"))?;
    }
    Ok(if is_equal { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
