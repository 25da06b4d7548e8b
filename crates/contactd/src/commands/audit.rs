//! `contactd audit show`, `verify`, `head`, `root`, `proof`

mod follow;
mod listing;
mod show;

use std::io::{self, BufWriter, IsTerminal};
use std::process::ExitCode;

use anyhow::bail;
use contactd_core::{Cancel, RootKey, unobserved};
use contactd_journal::{NotedHead, Roots};
use contactd_journal::{Verifier, verify_proof};
use contactd_services::{IndexState, NodeName, OfNode, RootList, VerifiedJournals, VerifyQuery};

use crate::cli::{AuditCommand, AuditProofArgs, AuditVerifyArgs};
use crate::config::Config;
use crate::context::Context;
use crate::misuse::Misuse;
use crate::progress::Working;
use crate::{output, progress};

pub(crate) async fn run(config: Config, command: &AuditCommand) -> anyhow::Result<ExitCode> {
    match command {
        AuditCommand::Show(args) => show::run(&Context::open(config).await?, args).await,
        AuditCommand::Verify(args) if args.proof.is_some() || args.dir.is_some() => verify_elsewhere(args),
        AuditCommand::Verify(args) => verify(&Context::open(config).await?, args).await,
        AuditCommand::Head(args) => head(&Context::open(config).await?, args.json).await,
        AuditCommand::Root(args) => root(&Context::open(config).await?, args.json).await,
        AuditCommand::Proof(args) => proof(&Context::open(config).await?, args).await,
    }
}

/// Warns about problems with the index.
pub(crate) fn warn(index: &IndexState) {
    if let Some(error) = &index.unusable {
        output::words(format_args!(
            "contactd: the index cannot be used ({error}); the whole journal was read"
        ));
    }
    if index.is_lost {
        output::words(format_args!(
            "contactd: lines are missing from the journal or were changed; run `contactd audit verify` to see which"
        ));
    }
}

/// Warns about copies in the database whose lines are not shown.
pub(crate) async fn warn_of_superseded(context: &Context) -> anyhow::Result<()> {
    for NodeName { node, name } in context.services.audits.superseded().await? {
        output::words(format_args!(
            "contactd: the journal of node {node} ({name}) does not continue what it had shipped before, and those lines are not \
             shown here; run `contactd audit verify` to see why"
        ));
    }
    Ok(())
}

async fn verify(context: &Context, args: &AuditVerifyArgs) -> anyhow::Result<ExitCode> {
    let audits = &context.services.audits;
    let mut accepted = None;
    if args.accept_loss {
        context.require_node()?;
        accepted = Some(audits.accept_loss(&context.actor).await?);
        output::changed(&context.place, format_args!("the loss is accepted"));
    } else {
        context.name_node();
    }
    let (node, roots, noted) = (args.node.clone(), args.roots(), args.head.clone());
    let query = VerifyQuery { node, roots, noted };
    let cancel = Cancel::default();
    let verifying = audits.verify_all(&context.actor, &query, &unobserved, &cancel);
    let verified = progress::during("verifying the journal", verifying).await?;
    if let Some(entry) = &accepted {
        // Not before: what opens the journal notes in it what is wrong.
        output::unrecorded(&audits.collected(&[entry]).await);
    }
    if verified.files.is_none() && verified.copies.is_empty() {
        bail!("no node has shipped its journal to this database yet");
    }
    report(&verified, args.json)
}

/// Verifies a proof, or a copy of a journal: without a store, and without any secret.
fn verify_elsewhere(args: &AuditVerifyArgs) -> anyhow::Result<ExitCode> {
    let working = Working::start("verifying the journal");
    let given = args.roots();
    let has_root = !given.is_empty();
    let roots = if has_root { Roots::given(given) } else { Roots::default() };
    let verification = match (&args.proof, &args.dir) {
        (Some(_), _) if !has_root => {
            return Err(
                Misuse("a proof is worth nothing without --root KEY, noted down before".to_owned()).into()
            );
        }
        (Some(file), _) => verify_proof(file, &roots)?,
        (None, Some(dir)) => {
            // The copy of a data directory, or of its audit/ alone.
            let inside = dir.join("audit");
            let dir = if inside.is_dir() { &inside } else { dir };
            if contactd_journal::segments(dir)?.is_empty() {
                bail!("there is no journal in {}", dir.display());
            }
            let noted = args.head.as_ref().map(NotedHead::known);
            let verifier = Verifier { roots, ..Verifier::default() };
            verifier.verify(dir, noted.as_slice())?
        }
        (None, None) => bail!("give --dir or --proof"),
    };
    drop(working);
    report(&VerifiedJournals::of_files(verification), args.json)
}

fn report(verified: &VerifiedJournals, json: bool) -> anyhow::Result<ExitCode> {
    let shown = match json {
        true => output::json(verified),
        false => {
            let mut words = verified.words().into_iter();
            words.try_for_each(|line| output::data(format_args!("{line}"))).map_err(Into::into)
        }
    };
    match shown {
        // If the reader has closed the pipe, the exit code still tells whether the journal is whole.
        Err(error) if !output::is_broken_pipe(&error) => Err(error),
        _ => Ok(if verified.is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE }),
    }
}

async fn head(context: &Context, json: bool) -> anyhow::Result<ExitCode> {
    context.name_node();
    let heads = context.services.audits.all_heads(&context.actor).await?;
    match &heads[..] {
        [] => bail!("nothing is signed yet: the journal is empty, or a server has to open it once"),
        [head] if json && context.database.is_none() => output::json(&head.of)?,
        heads if json => output::json(&heads)?,
        _ => {}
    }
    for OfNode { node, is_here, of: head } in heads.iter().filter(|_| !json) {
        if *is_here {
            let of_node = context.database.as_ref().map(|_| format!(":{}", node.node)).unwrap_or_default();
            output::data(format_args!("{}:{}{of_node}", head.seq, head.chain))?;
            output::words(format_args!(
                "line {} of {}, signed and on disk; save this elsewhere, and check it later with `contactd audit verify --head`",
                head.seq, head.at
            ));
        } else {
            output::data(format_args!("{}:{}:{}", head.seq, head.chain, node.node))?;
            output::words(format_args!(
                "line {} of {}, the last one that node {} ({}) has shipped",
                head.seq, head.at, node.node, node.name
            ));
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn root(context: &Context, json: bool) -> anyhow::Result<ExitCode> {
    context.name_node();
    let all = context.services.audits.all_roots(&context.actor).await?;
    match &all[..] {
        [] => bail!("the journal has no root yet: the next start of the server gives it one"),
        [own] if json && context.database.is_none() => output::json(&own.of.roots)?,
        all if json => output::json(&all)?,
        _ => {}
    }
    for OfNode { node, is_here, of: RootList { roots } } in all.iter().filter(|_| !json) {
        if !is_here {
            output::words(format_args!("of node {} ({})", node.node, node.name));
        }
        show_roots(roots)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn show_roots(roots: &[RootKey]) -> anyhow::Result<()> {
    let Some((newest, earlier)) = roots.split_last() else { return Ok(()) };
    output::data(format_args!("{newest}"))?;
    output::words(format_args!(
        "note this key down elsewhere; `contactd audit verify --root KEY` then trusts nothing else"
    ));
    for earlier in earlier {
        output::words(format_args!(
            "before a restore, the journal had the root {earlier}: give both with --root"
        ));
    }
    Ok(())
}

async fn proof(context: &Context, args: &AuditProofArgs) -> anyhow::Result<ExitCode> {
    if io::stdout().is_terminal() {
        return Err(Misuse("write the proof to a file: contactd audit proof … > FILE".to_owned()).into());
    }
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout());
    let AuditProofArgs { since, until, node } = args;
    if node.is_none() {
        context.name_node();
    }
    let audits = &context.services.audits;
    let proving = audits.prove(&context.actor, node.as_deref(), *since, *until, &mut out);
    let made = progress::during("reading the journal", proving).await?;
    output::words(format_args!(
        "lines {} to {}; an auditor checks them with `contactd audit verify --proof FILE --root KEY`",
        made.first, made.last
    ));
    if !made.is_complete {
        output::words(format_args!("contactd: the journal is not signed up to the end of this period yet"));
    }
    Ok(ExitCode::SUCCESS)
}
