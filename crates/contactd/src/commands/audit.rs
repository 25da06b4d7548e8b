//! `contactd audit show`, `verify`, `head`

use std::collections::HashMap;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use contactd_core::store::{AuditFilter, AuditIndex, Tokens};
use contactd_core::{AuditRecord, Timestamp};
use contactd_journal::{Chain, Finding};
use serde::Serialize;

use crate::cli::{AuditCommand, AuditShowArgs, AuditVerifyArgs};
use crate::context::Context;
use crate::{control, indexer, output};

pub(crate) async fn run(context: &Context, command: &AuditCommand) -> anyhow::Result<ExitCode> {
    match command {
        AuditCommand::Show(args) => show(context, args).await,
        AuditCommand::Verify(args) => verify(context, args),
        AuditCommand::Head(args) => head(context, args.json),
    }
}

/// One request, as it is shown.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown<'a> {
    seq: u64,
    time: String,
    request_id: &'a str,
    token: &'a str,
    token_name: Option<&'a str>,
    operation: &'static str,
    outcome: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    profile_digest: Option<String>,
    node: &'a str,
}

async fn show(context: &Context, args: &AuditShowArgs) -> anyhow::Result<ExitCode> {
    indexer::catch_up(&context.store, &context.dir.audit()).await?;
    let names = token_names(context).await?;
    let tokens = args.token.as_ref().map(|wanted| {
        let named = names.iter().filter(|(_, name)| *name == wanted).map(|(id, _)| id.clone());
        named.chain([wanted.clone()]).collect()
    });
    let profiles = match &args.profile {
        Some(url) => {
            let digests = context.keys.profile_digests(&context.profile(url)?);
            Some(digests.into_iter().map(|(_, digest)| digest).collect())
        }
        None => None,
    };
    let filter =
        AuditFilter { tokens, profiles, since: args.since, until: args.until, outcome: args.outcome.clone() };
    let mut out = Listing::begin(args.json);
    let mut failed = None;
    let mut left = args.limit.unwrap_or(u64::MAX);
    context
        .store
        .visit_audit(&filter, |record| {
            if left == 0 {
                return false;
            }
            left -= 1;
            failed = out.add(&record, names.get(&record.token).map(String::as_str)).err();
            failed.is_none()
        })
        .await?;
    match failed {
        Some(error) => Err(error),
        None => out.end().map(|()| ExitCode::SUCCESS),
    }
}

/// The names of all tokens there ever were, by their ids.
pub(crate) async fn token_names(context: &Context) -> anyhow::Result<HashMap<String, String>> {
    let tokens = context.store.list_tokens().await?;
    Ok(tokens.into_iter().map(|(_, token)| (token.id, token.name)).collect())
}

/// Requests on stdout, one after the other: there may be more of them than fit into memory.
struct Listing {
    out: BufWriter<io::Stdout>,
    is_json: bool,
    count: u64,
}

impl Listing {
    fn begin(is_json: bool) -> Self {
        Self { out: BufWriter::with_capacity(1 << 16, io::stdout()), is_json, count: 0 }
    }

    fn add(&mut self, record: &AuditRecord, token_name: Option<&str>) -> anyhow::Result<()> {
        let digest = record.profile.as_ref().map(|(_, digest)| digest);
        let shown = Shown {
            seq: record.seq,
            time: record.at.to_string(),
            request_id: &record.request_id,
            token: &record.token,
            token_name,
            operation: record.operation.name(),
            outcome: &record.outcome,
            reason: record.reason.as_deref(),
            profile_digest: digest.map(|digest| digest.0.iter().map(|byte| format!("{byte:02x}")).collect()),
            node: &record.node,
        };
        if self.is_json {
            self.out.write_all(if self.count == 0 { b"[" } else { b"," })?;
            serde_json::to_writer(&mut self.out, &shown)?;
        } else {
            if self.count == 0 {
                writeln!(
                    self.out,
                    "{:<24}  {:<9}  {:<7}  {:<24}  REQUEST",
                    "TIME", "OPERATION", "OUTCOME", "TOKEN"
                )?;
            }
            let outcome =
                shown.reason.map_or(shown.outcome.to_owned(), |reason| format!("refused: {reason}"));
            writeln!(
                self.out,
                "{:<24}  {:<9}  {:<7}  {:<24}  {}",
                shown.time,
                shown.operation,
                outcome,
                token_name.unwrap_or(shown.token),
                shown.request_id
            )?;
        }
        self.count += 1;
        Ok(())
    }

    fn end(mut self) -> anyhow::Result<()> {
        if self.is_json {
            self.out.write_all(if self.count == 0 { b"[]\n" } else { b"]\n" })?;
        } else if self.count == 0 {
            output::words(format_args!("nothing that matches is in the journal"));
        }
        self.out.flush()?;
        Ok(())
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Verified {
    is_whole: bool,
    lines: u64,
    first: Option<u64>,
    head: Option<ShownHead>,
    findings: Vec<ShownFinding>,
    notes: Vec<String>,
}

#[derive(Serialize)]
struct ShownFinding {
    file: String,
    line: u64,
    seq: Option<u64>,
    what: String,
}

#[derive(Serialize)]
struct ShownHead {
    seq: u64,
    chain: String,
    time: Timestamped,
}

/// A time, as JSON has it.
struct Timestamped(Timestamp);

impl Serialize for Timestamped {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl From<contactd_journal::Head> for ShownHead {
    fn from(head: contactd_journal::Head) -> Self {
        Self { seq: head.seq, chain: head.chain.to_string(), time: Timestamped(head.at) }
    }
}

/// How many findings people are shown.
const SHOWN: usize = 20;

fn verify(context: &Context, args: &AuditVerifyArgs) -> anyhow::Result<ExitCode> {
    let noted = args.head.as_deref().map(parse_head).transpose()?;
    let key = context.audit_key()?;
    let is_served = control::is_served(&context.dir);
    let report = contactd_journal::verify(&context.dir.audit(), &key, noted, is_served)?;
    let is_whole = report.findings.is_empty();
    if args.json {
        let finding = |Finding { file, line, seq, what }: Finding| ShownFinding { file, line, seq, what };
        output::json(&Verified {
            is_whole,
            lines: report.lines,
            first: report.first,
            head: report.head.map(ShownHead::from),
            findings: report.findings.into_iter().map(finding).collect(),
            notes: report.notes,
        })?;
    } else {
        for note in &report.notes {
            output::data(format_args!("note: {note}"))?;
        }
        for finding in report.findings.iter().take(SHOWN) {
            output::data(format_args!("WRONG {finding}"))?;
        }
        if report.findings.len() > SHOWN {
            output::data(format_args!("and {} more; --json lists all", report.findings.len() - SHOWN))?;
        }
        match (is_whole, report.head) {
            (true, Some(head)) => output::data(format_args!(
                "whole: {} lines, to line {} of {}",
                report.lines, head.seq, head.at
            ))?,
            (true, None) => output::data(format_args!("whole: the journal is empty"))?,
            (false, _) => output::data(format_args!("NOT whole: {} lines were looked at", report.lines))?,
        }
    }
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What `audit head` printed: a line's number and its chain value.
fn parse_head(text: &str) -> anyhow::Result<(u64, Chain)> {
    let mut words = text.split(|c: char| c == ':' || c.is_whitespace()).filter(|word| !word.is_empty());
    let parsed = words.next().and_then(|seq| seq.parse().ok()).zip(words.next().and_then(Chain::parse));
    parsed.with_context(|| {
        format!("`{text}` is not a head; write it as `contactd audit head` printed it, such as 41:9f…")
    })
}

fn head(context: &Context, json: bool) -> anyhow::Result<ExitCode> {
    let Some(head) = contactd_journal::head(&context.dir.audit())? else {
        bail!("the journal is empty: nothing has been looked up yet");
    };
    if json {
        output::json(&ShownHead::from(head))?;
    } else {
        output::data(format_args!("{}:{}", head.seq, head.chain))?;
        output::words(format_args!(
            "line {} of {}; note this down elsewhere, and check with `contactd audit verify --head`",
            head.seq, head.at
        ));
    }
    Ok(ExitCode::SUCCESS)
}
