//! Prints requests and actions to stdout one at a time, because there may be more of them than fit into memory.

use std::io::{self, BufWriter, Write};

use contactd_core::Via;
use contactd_services::views::{ActionView, EventView, RequestView};
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

fn request_row(of: &RequestView) -> [String; 5] {
    let outcome = of.reason.as_ref().map_or(of.outcome.clone(), |reason| format!("refused: {reason}"));
    let token = of.token_name.as_ref().unwrap_or(&of.token).clone();
    let several = of.count.map(|count| format!("{count} requests"));
    let request = several.unwrap_or_else(|| of.request_id.clone());
    [of.time.to_string(), of.operation.to_owned(), outcome, token, request]
}

fn action_row(of: &ActionView) -> [String; 5] {
    let counts = of.counts.iter().map(|(name, count)| format!("{name} {count}"));
    let words = of.what.clone().into_iter().chain(counts);
    let words = words.chain(of.ticket.clone()).collect::<Vec<_>>().join(", ");
    // A user and an admin token may have the same name.
    let token = if of.via == Via::AdminApi.name() { "token " } else { "" };
    let actor = format!("by {token}{}", of.actor);
    [of.time.to_string(), of.operation.clone(), of.outcome.to_owned(), actor, words]
}

impl Listing {
    pub(super) fn begin(form: Form) -> anyhow::Result<Self> {
        let buffered = || BufWriter::with_capacity(1 << 16, io::stdout());
        let out = match form {
            Form::Text => Out::Text(buffered()),
            Form::Json => Out::Json(buffered()),
            Form::Csv => {
                let mut out = Box::new(csv::Writer::from_writer(io::stdout()));
                output::csv_row(&mut out, EventView::COLUMNS)?;
                Out::Csv(out)
            }
        };
        Ok(Self { out, count: 0 })
    }

    pub(super) fn add(&mut self, event: &EventView) -> anyhow::Result<()> {
        if let Out::Csv(out) = &mut self.out {
            return Ok(output::csv_row(out, event.cells())?);
        }
        match event {
            EventView::Request(request) => self.put(request, || request_row(request)),
            EventView::Admin(action) => self.put(action, || action_row(action)),
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
