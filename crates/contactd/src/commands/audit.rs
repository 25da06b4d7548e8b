//! `contactd audit show`, `verify`, `head`, `root`, `proof`

mod listing;
mod show;

use std::io::{self, BufWriter, IsTerminal};
use std::process::ExitCode;

use anyhow::bail;
use contactd_core::services::IndexState;
use contactd_core::{KnownLine, RootSource, Roots, Verification};
use contactd_journal::{Verifier, verify_proof};
use serde::Serialize;

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
        AuditCommand::Verify(args) => verify(&of_node(config).await?, args).await,
        AuditCommand::Head(args) => head(&of_node(config).await?, args.json).await,
        AuditCommand::Root(args) => root(&of_node(config).await?, args.json).await,
        AuditCommand::Proof(args) => proof(&of_node(config).await?, args).await,
    }
}

/// Opens the journal of this machine's node.
async fn of_node(config: Config) -> anyhow::Result<Context> {
    let context = Context::open(config).await?;
    context.require_node()?;
    Ok(context)
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

/// The result of a verification, as JSON.
#[derive(Serialize)]
struct ShownVerification<'a> {
    #[serde(rename = "isWhole")]
    is_whole: bool,
    #[serde(flatten)]
    verification: &'a Verification,
}

/// How many faults the text output shows.
const SHOWN: usize = 20;

async fn verify(context: &Context, args: &AuditVerifyArgs) -> anyhow::Result<ExitCode> {
    let audits = &context.services.audits;
    if args.accept_loss {
        audits.accept_loss(&context.actor).await?;
        output::changed(&context.place, format_args!("the loss is accepted"));
    }
    let verifying = audits.verify(&context.actor, args.head, args.root.clone());
    let verification = progress::during("verifying the journal", verifying).await?;
    report(&verification, args.json)
}

/// Verifies a proof, or a copy of a journal: without a store, and without any secret.
fn verify_elsewhere(args: &AuditVerifyArgs) -> anyhow::Result<ExitCode> {
    let working = Working::start("verifying the journal");
    let roots = match args.root.is_empty() {
        true => Roots::default(),
        false => Roots::given(args.root.clone()),
    };
    let verification = match (&args.proof, &args.dir) {
        (Some(_), _) if args.root.is_empty() => {
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
            let noted = args.head.map(|(seq, chain)| KnownLine { seq, chain, how: "was noted down" });
            let verifier = Verifier { roots, ..Verifier::default() };
            verifier.verify(dir, noted.as_slice())?
        }
        (None, None) => bail!("give --dir or --proof"),
    };
    drop(working);
    report(&verification, args.json)
}

fn report(verification: &Verification, json: bool) -> anyhow::Result<ExitCode> {
    match show_verification(verification, json) {
        // If the reader has closed the pipe, the exit code still tells whether the journal is whole.
        Err(error) if !output::is_broken_pipe(&error) => Err(error),
        _ => Ok(if verification.is_whole() { ExitCode::SUCCESS } else { ExitCode::FAILURE }),
    }
}

fn show_verification(verification: &Verification, json: bool) -> anyhow::Result<()> {
    let Verification { lines, head, faults, notes, .. } = verification;
    if json {
        return output::json(&ShownVerification { is_whole: verification.is_whole(), verification });
    }
    for note in notes {
        output::data(format_args!("note: {note}"))?;
    }
    for outage in &verification.outages {
        let how =
            if outage.was_stopped { "the server was stopped" } else { "the server was not stopped in order" };
        output::data(format_args!("note: no service from {} to {}: {how}", outage.from, outage.until))?;
    }
    for fault in faults.iter().take(SHOWN) {
        output::data(format_args!("WRONG {fault}"))?;
    }
    if faults.len() > SHOWN {
        output::data(format_args!("and {} more; --json lists all of them", faults.len() - SHOWN))?;
    }
    match (faults.is_empty(), head) {
        (true, Some(head)) => {
            let lines = output::counted(*lines, "line");
            output::data(format_args!("whole: {lines}, to line {} of {}", head.seq, head.at))?;
        }
        (true, None) => output::data(format_args!("whole: the journal is empty"))?,
        (false, _) => output::data(format_args!("NOT whole: {} checked", output::counted(*lines, "line")))?,
    }
    show_signature(verification)
}

/// Up to where the journal is signed, and who says that the signer is the right one.
fn show_signature(verification: &Verification) -> anyhow::Result<()> {
    let Verification { signed, unsigned, confirmed, roots, root_source, .. } = verification;
    if let Some(signed) = signed {
        output::data(format_args!("signed: to line {} of {}", signed.seq, signed.at))?;
    }
    if *unsigned > 0 {
        let how = match unsigned == confirmed {
            true => "the key in keys/ confirms them",
            false => "nothing here confirms them",
        };
        let lines = output::counted(*unsigned, "line");
        output::data(format_args!("not signed yet: {lines} after that; {how}"))?;
    }
    for root in roots {
        let source = match root_source {
            RootSource::Given => "given with --root",
            RootSource::Remembered => "remembered by the store; give the one you noted down with --root",
            RootSource::Journal => {
                "taken from the journal itself, which proves little: give the one you noted down with --root"
            }
        };
        output::data(format_args!("root: {root} ({source})"))?;
    }
    Ok(())
}

async fn head(context: &Context, json: bool) -> anyhow::Result<ExitCode> {
    let Some(head) = context.services.audits.head(&context.actor).await? else {
        bail!("nothing is signed yet: the journal is empty, or a server has to open it once");
    };
    if json {
        output::json(&head)?;
    } else {
        output::data(format_args!("{}:{}", head.seq, head.chain))?;
        output::words(format_args!(
            "line {} of {}, signed and on disk; save this elsewhere, and check it later with `contactd audit verify --head`",
            head.seq, head.at
        ));
    }
    Ok(ExitCode::SUCCESS)
}

async fn root(context: &Context, json: bool) -> anyhow::Result<ExitCode> {
    let roots = context.services.audits.roots(&context.actor).await?;
    let Some(newest) = roots.last() else {
        bail!("the journal has no root yet: the next start of the server gives it one");
    };
    if json {
        output::json(&roots)?;
        return Ok(ExitCode::SUCCESS);
    }
    output::data(format_args!("{newest}"))?;
    output::words(format_args!(
        "note this key down elsewhere; `contactd audit verify --root KEY` then trusts nothing else"
    ));
    for earlier in &roots[..roots.len() - 1] {
        output::words(format_args!(
            "before a restore, the journal had the root {earlier}: give both with --root"
        ));
    }
    Ok(ExitCode::SUCCESS)
}

async fn proof(context: &Context, args: &AuditProofArgs) -> anyhow::Result<ExitCode> {
    if io::stdout().is_terminal() {
        return Err(Misuse("write the proof to a file: contactd audit proof … > FILE".to_owned()).into());
    }
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout());
    let proving = context.services.audits.prove(&context.actor, args.since, args.until, &mut out);
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
