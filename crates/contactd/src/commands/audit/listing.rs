//! Prints requests and actions to stdout one at a time, because there may be more of them than fit into memory.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};

use contactd_core::{AdminRecord, AuditRecord, Timestamp, Via, hex};
use contactd_services::ShownEvent;
use serde::Serialize;

use crate::output;

/// How events are printed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Text,
    Json,
    Csv,
}

pub(super) struct Listing {
    out: Out,
    count: u64,
}

enum Out {
    Text(BufWriter<io::Stdout>),
    Json(BufWriter<io::Stdout>),
    Csv(Box<csv::Writer<io::Stdout>>),
}

/// One request, as it is shown.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ShownRequest<'a> {
    seq: u64,
    time: Timestamp,
    request_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    given_id_digest: Option<String>,
    token: &'a str,
    token_name: Option<&'a str>,
    operation: &'static str,
    outcome: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    profile_digest: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value_digest: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<u64>,
    node: &'a str,
}

/// One administrative action, as it is shown. It has the fields of a request too, so that both fit into one table.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ShownAction<'a> {
    seq: u64,
    time: Timestamp,
    request_id: Option<()>,
    token: Option<()>,
    actor: &'a str,
    via: &'a str,
    operation: &'a str,
    outcome: &'static str,
    counts: &'a BTreeMap<String, u64>,
    subjects: &'a [String],
    ticket: Option<&'a str>,
    what: Option<&'a str>,
    node: &'a str,
}

impl ShownRequest<'_> {
    fn row(&self) -> [String; 5] {
        let outcome = self.reason.map_or(self.outcome.to_owned(), |reason| format!("refused: {reason}"));
        let token = self.token_name.unwrap_or(self.token).to_owned();
        let several = self.count.map(|count| format!("{count} requests"));
        let request = several.unwrap_or_else(|| self.request_id.to_owned());
        [self.time.to_string(), self.operation.to_owned(), outcome, token, request]
    }
}

impl ShownAction<'_> {
    fn row(&self) -> [String; 5] {
        let counts = self.counts.iter().map(|(name, count)| format!("{name} {count}"));
        let words = self.what.map(str::to_owned).into_iter().chain(counts);
        let words = words.chain(self.ticket.map(str::to_owned)).collect::<Vec<_>>().join(", ");
        // A user and an admin token may have the same name.
        let token = if self.via == Via::AdminApi.name() { "token " } else { "" };
        let actor = format!("by {token}{}", self.actor);
        [self.time.to_string(), self.operation.to_owned(), self.outcome.to_owned(), actor, words]
    }
}

impl Listing {
    pub(super) fn begin(form: Form) -> anyhow::Result<Self> {
        let buffered = || BufWriter::with_capacity(1 << 16, io::stdout());
        let out = match form {
            Form::Text => Out::Text(buffered()),
            Form::Json => Out::Json(buffered()),
            Form::Csv => {
                let mut out = Box::new(csv::Writer::from_writer(io::stdout()));
                output::csv_row(&mut out, ShownEvent::COLUMNS)?;
                Out::Csv(out)
            }
        };
        Ok(Self { out, count: 0 })
    }

    pub(super) fn add(&mut self, event: &ShownEvent<'_>) -> anyhow::Result<()> {
        if let Out::Csv(out) = &mut self.out {
            return Ok(output::csv_row(out, event.cells())?);
        }
        match event {
            ShownEvent::Request { record, token_name } => {
                let shown = request(record, *token_name);
                self.put(&shown, || shown.row())
            }
            ShownEvent::Admin(record) => {
                let shown = action(record);
                self.put(&shown, || shown.row())
            }
        }
    }

    fn put(&mut self, shown: &impl Serialize, row: impl FnOnce() -> [String; 5]) -> anyhow::Result<()> {
        const HEADER: [&str; 5] = ["TIME", "OPERATION", "OUTCOME", "TOKEN OR ACTOR", "REQUEST OR COUNTS"];
        let is_first = self.count == 0;
        self.count += 1;
        match &mut self.out {
            Out::Text(out) => {
                let header = is_first.then(|| HEADER.map(str::to_owned));
                for [time, operation, outcome, who, what] in header.into_iter().chain([row()]) {
                    writeln!(out, "{time:<24}  {operation:<14}  {outcome:<30}  {who:<24}  {what}")?;
                }
            }
            Out::Json(out) => {
                out.write_all(if is_first { b"[" } else { b"," })?;
                serde_json::to_writer(out, shown)?;
            }
            // Its rows are written as they come.
            Out::Csv(_) => {}
        }
        Ok(())
    }

    pub(super) fn end(self) -> anyhow::Result<()> {
        match self.out {
            Out::Text(mut out) => {
                if self.count == 0 {
                    output::words(format_args!("nothing in the journal matches"));
                }
                out.flush()?;
            }
            Out::Json(mut out) => {
                out.write_all(if self.count == 0 { b"[]\n" } else { b"]\n" })?;
                out.flush()?;
            }
            Out::Csv(mut out) => out.flush()?,
        }
        Ok(())
    }
}

fn request<'a>(record: &'a AuditRecord, token_name: Option<&'a str>) -> ShownRequest<'a> {
    ShownRequest {
        seq: record.seq,
        time: record.at,
        request_id: &record.request_id,
        given_id_digest: record.given_id.map(|digest| hex::encode(&digest.0)),
        token: &record.token,
        token_name,
        operation: record.operation.name(),
        outcome: &record.outcome,
        reason: record.reason.as_deref(),
        profile_digest: record.profile.as_ref().map(|(_, digest)| hex::encode(&digest.0)),
        value_digest: record.value.map(|digest| hex::encode(&digest.0)),
        count: (record.count > 1).then_some(record.count),
        node: &record.node,
    }
}

fn action(record: &AdminRecord) -> ShownAction<'_> {
    let entry = &record.entry;
    ShownAction {
        seq: record.seq,
        time: entry.time,
        request_id: None,
        token: None,
        actor: &entry.actor,
        via: &entry.via,
        operation: &entry.operation,
        outcome: entry.outcome.name(),
        counts: &entry.counts,
        subjects: &entry.subjects,
        ticket: entry.ticket.as_deref(),
        what: entry.what.as_deref(),
        node: &record.node,
    }
}
