//! `contactd audit show`, `verify`, `head`

use std::collections::HashMap;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;
use std::str::FromStr;

use anyhow::bail;
use contactd_core::store::{AuditFilter, AuditIndex, Tokens};
use contactd_core::{AuditOutcome, AuditPosition, AuditRecord, NOT_RECORDED, Timestamp};
use contactd_journal::{Chain, Entry, Finding, Lines, Noted, Report};
use contactd_store_sqlite::SqliteStore;
use serde::Serialize;

use crate::cli::{AuditCommand, AuditShowArgs, AuditVerifyArgs};
use crate::context::Context;
use crate::{control, indexer, output};

pub(crate) async fn run(context: &Context, command: &AuditCommand) -> anyhow::Result<ExitCode> {
    match command {
        AuditCommand::Show(args) => show(context, args).await,
        AuditCommand::Verify(args) => verify(context, args).await,
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
    let names = token_names(context).await?;
    let tokens = args.token.as_deref().map(|wanted| named_tokens(&names, wanted)).transpose()?;
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
    visit(context, &filter, |record| {
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

/// The ids of the tokens that are meant by an id or a name.
pub(crate) fn named_tokens(names: &HashMap<String, String>, wanted: &str) -> anyhow::Result<Vec<String>> {
    let is_meant = |(id, name): &(&String, &String)| *id == wanted || *name == wanted;
    let found: Vec<String> = names.iter().filter(is_meant).map(|(id, _)| id.clone()).collect();
    if found.is_empty() {
        bail!("there is no token `{wanted}`; `contactd token list` shows their ids and names");
    }
    Ok(found)
}

/// Every request in the journal that matches, oldest first, from the index; where that cannot be written, from the journal
/// itself. `visit` says whether to go on.
pub(crate) async fn visit(
    context: &Context,
    filter: &AuditFilter,
    mut visit: impl FnMut(AuditRecord) -> bool + Send,
) -> anyhow::Result<()> {
    let dir = context.dir.audit();
    let Err(error) = indexer::catch_up(&context.store, &dir).await else {
        return Ok(context.store.visit_audit(filter, visit).await?);
    };
    output::words(format_args!("contactd: the index cannot be used ({error:#}); reading the whole journal"));
    let undisclosed = indexer::undisclosed(&dir)?;
    let mut lines = Lines::after(&dir, AuditPosition::default());
    while let Some(line) = lines.read()? {
        let Entry::Request(mut record) = line.entry else { continue };
        if undisclosed.iter().any(|&(from, through)| (from..=through).contains(&record.seq)) {
            record.outcome = AuditOutcome::Refused(NOT_RECORDED).name().to_owned();
            record.reason = Some(NOT_RECORDED.to_owned());
        }
        if filter.matches(&record) && !visit(record) {
            break;
        }
    }
    Ok(())
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
                    "{:<24}  {:<9}  {:<30}  {:<24}  REQUEST",
                    "TIME", "OPERATION", "OUTCOME", "TOKEN"
                )?;
            }
            let outcome =
                shown.reason.map_or(shown.outcome.to_owned(), |reason| format!("refused: {reason}"));
            writeln!(
                self.out,
                "{:<24}  {:<9}  {:<30}  {:<24}  {}",
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

async fn verify(context: &Context, args: &AuditVerifyArgs) -> anyhow::Result<ExitCode> {
    if args.accept_loss {
        context.store.forget(indexer::LOST)?;
        let first_day = contactd_journal::begins(&context.dir.audit())?.map_or(i64::MIN, Timestamp::day);
        context.store.reset_audit_index(first_day).await?;
    }
    let mut noted = known_from_index(&context.store).await?;
    noted.extend(args.head.iter().map(|head| self::noted(*head, "was noted down")));
    let key = context.audit_key()?;
    let is_served = control::is_served(&context.dir);
    let report = contactd_journal::verify(&context.dir.audit(), &key, &noted, is_served)?;
    let is_whole = report.findings.is_empty();
    match tell(report, args.json) {
        // Whoever stopped reading learns from the exit code that it is not whole.
        Err(error) if !output::is_broken_pipe(&error) => Err(error),
        _ => Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE }),
    }
}

/// Lines that the index has seen, which the journal has to go through.
pub(crate) async fn known_from_index(store: &SqliteStore) -> anyhow::Result<Vec<Noted>> {
    let mut known = Vec::new();
    let indexed = store.audit_position().await?;
    if indexed.seq > 0 {
        let chain = Chain::from_bytes(indexed.chain);
        known.push(Noted { seq: indexed.seq, chain, how: "had been indexed" });
    }
    if let Some(lost) = store.fact(indexer::LOST)?.as_deref().and_then(|text| text.parse().ok()) {
        known.push(noted(lost, "had been indexed, before the index was made anew"));
    }
    Ok(known)
}

fn noted(NotedHead { seq, chain }: NotedHead, how: &'static str) -> Noted {
    Noted { seq, chain, how }
}

fn tell(report: Report, json: bool) -> anyhow::Result<()> {
    let is_whole = report.findings.is_empty();
    if json {
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
    Ok(())
}

/// What `audit head` printed: a line's number and its chain value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NotedHead {
    seq: u64,
    chain: Chain,
}

impl FromStr for NotedHead {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = text.split(|c: char| c == ':' || c.is_whitespace()).filter(|word| !word.is_empty());
        let parsed = words.next().and_then(|seq| seq.parse().ok()).zip(words.next().and_then(Chain::parse));
        let (seq, chain) = parsed.ok_or_else(|| {
            format!(
                "`{text}` is not a head; write it as `contactd audit head` printed it, such as 41:9f86d081…"
            )
        })?;
        Ok(Self { seq, chain })
    }
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
