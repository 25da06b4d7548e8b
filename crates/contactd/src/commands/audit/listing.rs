//! Prints requests to stdout one at a time, because there may be more of them than fit into memory.

use std::io::{self, BufWriter, Write};

use contactd_core::{AuditRecord, Timestamp, hex};
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

impl Listing {
    pub(super) fn begin(is_json: bool) -> Self {
        Self { out: BufWriter::with_capacity(1 << 16, io::stdout()), is_json, count: 0 }
    }

    pub(super) fn add(&mut self, record: &AuditRecord, token_name: Option<&str>) -> anyhow::Result<()> {
        let digest = record.profile.as_ref().map(|(_, digest)| digest);
        let shown = ShownRequest {
            seq: record.seq,
            time: record.at,
            request_id: &record.request_id,
            token: &record.token,
            token_name,
            operation: record.operation.name(),
            outcome: &record.outcome,
            reason: record.reason.as_deref(),
            profile_digest: digest.map(|digest| hex::encode(&digest.0)),
            node: &record.node,
        };
        if self.is_json {
            self.out.write_all(if self.count == 0 { b"[" } else { b"," })?;
            serde_json::to_writer(&mut self.out, &shown)?;
        } else {
            let outcome =
                shown.reason.map_or(shown.outcome.to_owned(), |reason| format!("refused: {reason}"));
            let token = token_name.unwrap_or(shown.token);
            if self.count == 0 {
                self.row(["TIME", "OPERATION", "OUTCOME", "TOKEN", "REQUEST"])?;
            }
            self.row([&shown.time.to_string(), shown.operation, &outcome, token, shown.request_id])?;
        }
        self.count += 1;
        Ok(())
    }

    fn row(&mut self, [time, operation, outcome, token, request]: [&str; 5]) -> io::Result<()> {
        writeln!(self.out, "{time:<24}  {operation:<9}  {outcome:<30}  {token:<24}  {request}")
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
