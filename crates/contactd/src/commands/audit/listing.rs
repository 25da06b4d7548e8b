//! Prints requests and actions to stdout one at a time, because there may be more of them than fit into memory.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};

use contactd_core::services::ShownEvent;
use contactd_core::{AdminRecord, AuditRecord, Timestamp, hex};
use serde::Serialize;

use crate::output;

pub(super) struct Listing {
    out: BufWriter<io::Stdout>,
    is_json: bool,
    count: u64,
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

impl Listing {
    pub(super) fn begin(is_json: bool) -> Self {
        Self { out: BufWriter::with_capacity(1 << 16, io::stdout()), is_json, count: 0 }
    }

    pub(super) fn add(&mut self, event: &ShownEvent<'_>) -> anyhow::Result<()> {
        match event {
            ShownEvent::Request { record, token_name } => self.add_request(record, *token_name),
            ShownEvent::Admin(record) => self.add_action(record),
        }
    }

    fn add_action(&mut self, record: &AdminRecord) -> anyhow::Result<()> {
        let entry = &record.entry;
        let shown = ShownAction {
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
        };
        if self.is_json {
            return self.json(&shown);
        }
        let counts = entry.counts.iter().map(|(name, count)| format!("{name} {count}"));
        let words = entry.what.iter().cloned().chain(counts).chain(entry.ticket.clone()).collect::<Vec<_>>();
        let actor = format!("by {}", entry.actor);
        self.row([&shown.time.to_string(), shown.operation, shown.outcome, &actor, &words.join(", ")])?;
        Ok(())
    }

    fn json(&mut self, shown: &impl Serialize) -> anyhow::Result<()> {
        self.out.write_all(if self.count == 0 { b"[" } else { b"," })?;
        serde_json::to_writer(&mut self.out, shown)?;
        self.count += 1;
        Ok(())
    }

    fn add_request(&mut self, record: &AuditRecord, token_name: Option<&str>) -> anyhow::Result<()> {
        let digest = record.profile.as_ref().map(|(_, digest)| digest);
        let shown = ShownRequest {
            seq: record.seq,
            time: record.at,
            request_id: &record.request_id,
            given_id_digest: record.given_id.map(|digest| hex::encode(&digest.0)),
            token: &record.token,
            token_name,
            operation: record.operation.name(),
            outcome: &record.outcome,
            reason: record.reason.as_deref(),
            profile_digest: digest.map(|digest| hex::encode(&digest.0)),
            value_digest: record.value.map(|digest| hex::encode(&digest.0)),
            count: (record.count > 1).then_some(record.count),
            node: &record.node,
        };
        if self.is_json {
            return self.json(&shown);
        }
        let outcome = shown.reason.map_or(shown.outcome.to_owned(), |reason| format!("refused: {reason}"));
        let token = token_name.unwrap_or(shown.token);
        let several = format!("{} requests", record.count);
        let request = if record.count > 1 { &several } else { shown.request_id };
        self.row([&shown.time.to_string(), shown.operation, &outcome, token, request])?;
        Ok(())
    }

    fn row(&mut self, row: [&str; 5]) -> io::Result<()> {
        const HEADER: [&str; 5] = ["TIME", "OPERATION", "OUTCOME", "TOKEN OR ACTOR", "REQUEST OR COUNTS"];
        let header = (self.count == 0).then_some(HEADER);
        self.count += 1;
        for [time, operation, outcome, who, what] in header.into_iter().chain([row]) {
            writeln!(self.out, "{time:<24}  {operation:<13}  {outcome:<30}  {who:<24}  {what}")?;
        }
        Ok(())
    }

    pub(super) fn end(mut self) -> anyhow::Result<()> {
        if self.is_json {
            self.out.write_all(if self.count == 0 { b"[]\n" } else { b"]\n" })?;
        } else if self.count == 0 {
            output::words(format_args!("nothing in the journal matches"));
        }
        self.out.flush()?;
        Ok(())
    }
}
