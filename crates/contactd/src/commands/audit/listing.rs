//! Prints requests and actions to stdout one at a time, because there may be more of them than fit into memory.

use std::io::{self, BufWriter, Write};

use contactd_core::{Via, csv_row};
use contactd_services::views::{ActionView, CorrectionView, EventView, RequestView};
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
    form: Form,
    out: BufWriter<io::Stdout>,
    count: u64,
}

pub(super) const HEADER: [&str; 5] = ["TIME", "OPERATION", "OUTCOME", "TOKEN OR ACTOR", "REQUEST OR COUNTS"];

pub(super) fn request_row(of: &RequestView) -> [String; 5] {
    let outcome = of.reason.as_ref().map_or(of.outcome.clone(), |reason| format!("refused: {reason}"));
    let token = of.token_name.as_ref().unwrap_or(&of.token);
    let via = of.via.map(|via| format!(" ({via})")).unwrap_or_default();
    let several = of.count.map(|count| format!("{count} requests"));
    let request = several.unwrap_or_else(|| of.request_id.clone());
    [of.time.to_string(), of.operation.to_owned(), outcome, format!("{token}{via}"), request]
}

pub(super) fn action_row(of: &ActionView) -> [String; 5] {
    let counts = of.counts.iter().map(|(name, count)| format!("{name} {count}"));
    let words = of.what.clone().into_iter().chain(counts);
    let words = words.chain(of.ticket.clone()).collect::<Vec<_>>().join(", ");
    // A user and an admin token may have the same name.
    let token = if of.via == Via::AdminApi.name() { "token " } else { "" };
    let actor = format!("by {token}{}", of.actor);
    [of.time.to_string(), of.operation.clone(), of.outcome.to_owned(), actor, words]
}

pub(super) fn correction_row(of: &CorrectionView) -> [String; 5] {
    let outcome = format!("{}: {}", of.outcome, of.reason);
    let lines = format!("lines {} to {} of node {}", of.from, of.through, of.node);
    [of.time.to_string(), "correction".to_owned(), outcome, "-".to_owned(), lines]
}

pub(super) fn text_line([time, operation, outcome, who, what]: [String; 5]) -> String {
    format!("{time:<24}  {operation:<14}  {outcome:<30}  {who:<24}  {what}\n")
}

impl Listing {
    pub(super) fn begin(form: Form) -> io::Result<Self> {
        let mut out = BufWriter::with_capacity(1 << 16, io::stdout());
        if form == Form::Csv {
            out.write_all(csv_row(EventView::COLUMNS).as_bytes())?;
        }
        Ok(Self { form, out, count: 0 })
    }

    pub(super) fn add(&mut self, event: &EventView) -> anyhow::Result<()> {
        match event {
            _ if self.form == Form::Csv => self.out.write_all(csv_row(event.cells()).as_bytes())?,
            EventView::Request(request) => self.put(request, || request_row(request))?,
            EventView::Admin(action) => self.put(action, || action_row(action))?,
        }
        self.count += 1;
        Ok(())
    }

    fn put(&mut self, shown: &impl Serialize, row: impl FnOnce() -> [String; 5]) -> anyhow::Result<()> {
        let is_first = self.count == 0;
        if self.form == Form::Json {
            self.out.write_all(if is_first { b"[" } else { b"," })?;
            return Ok(serde_json::to_writer(&mut self.out, shown)?);
        }
        let header = is_first.then(|| HEADER.map(str::to_owned));
        for row in header.into_iter().chain([row()]) {
            self.out.write_all(text_line(row).as_bytes())?;
        }
        Ok(())
    }

    pub(super) fn end(mut self) -> io::Result<()> {
        match (self.form, self.count) {
            (Form::Text, 0) => output::words(format_args!("nothing in the journal matches")),
            (Form::Json, 0) => self.out.write_all(b"[]\n")?,
            (Form::Json, _) => self.out.write_all(b"]\n")?,
            _ => {}
        }
        self.out.flush()
    }
}
