//! Writes data to stdout and messages to stderr.

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use contactd_core::{NodeNote, NotRecorded, csv_row};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;

/// Whether a terminal shows a line of progress, which other lines replace.
static HAS_PROGRESS: AtomicBool = AtomicBool::new(false);
/// Moves to the start of the line and clears it.
const CLEAR: &str = "\r\x1b[K";

/// Writes one line of text to stderr. An error is ignored.
pub(crate) fn words(line: fmt::Arguments<'_>) {
    let mut out = io::stderr().lock();
    let clear = if HAS_PROGRESS.swap(false, Ordering::Relaxed) { CLEAR } else { "" };
    let _ = writeln!(out, "{clear}{line}");
}

/// Shows a line of progress: on a terminal in place of the one before.
pub(crate) fn progress(line: &str, is_terminal: bool) {
    if !is_terminal {
        return words(format_args!("{line}"));
    }
    let mut out = io::stderr().lock();
    HAS_PROGRESS.store(true, Ordering::Relaxed);
    let _ = write!(out, "{CLEAR}{line}");
}

/// Clears the line of progress, if a terminal shows one.
pub(crate) fn end_progress() {
    let mut out = io::stderr().lock();
    if HAS_PROGRESS.swap(false, Ordering::Relaxed) {
        let _ = write!(out, "{CLEAR}");
    }
}

/// Says what a command did, and to which store.
pub(crate) fn changed(place: &str, done: fmt::Arguments<'_>) {
    words(format_args!("{done} ({place})"));
}

/// Says what there is to say about nodes after a change, and warns if it is not on record yet.
pub(crate) fn remarks(notes: &[NodeNote], recorded: &Result<(), NotRecorded>) {
    for note in notes {
        words(format_args!("contactd: {note}"));
    }
    unrecorded(recorded);
}

/// Warns that a change is not on record yet. It is kept in the store until it is.
pub(crate) fn unrecorded(recorded: &Result<(), NotRecorded>) {
    if let Err(error) = recorded {
        words(format_args!("contactd: done, but not yet on record: {error}"));
    }
}

/// A number with its noun: `1 detail`, `2 details`.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// Writes one line of data to stdout.
pub(crate) fn data(line: fmt::Arguments<'_>) -> io::Result<()> {
    writeln!(io::stdout().lock(), "{line}")
}

/// Writes data as JSON to stdout: indented on a terminal, on one line otherwise.
pub(crate) fn json(data: &impl Serialize) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    if out.is_terminal() {
        serde_json::to_writer_pretty(&mut out, data)?;
    } else {
        serde_json::to_writer(&mut out, data)?;
    }
    writeln!(out)?;
    Ok(())
}

/// Writes CSV to stdout. No cell of it is run as a formula by a spreadsheet program.
pub(crate) fn csv<T: AsRef<str>>(
    header: impl IntoIterator<Item = &'static str>,
    rows: impl IntoIterator<Item: IntoIterator<Item = T>>,
) -> io::Result<()> {
    let rows: String = rows.into_iter().map(csv_row).collect();
    io::stdout().lock().write_all((csv_row(header) + &rows).as_bytes())
}

/// Writes a table to stdout, each column as wide as its widest cell.
pub(crate) fn table(header: &[&str], rows: &[Vec<String>]) -> io::Result<()> {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain([header[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let mut out = io::stdout().lock();
    let mut line = |cells: &mut dyn Iterator<Item = &str>| {
        let padded: Vec<String> = cells.zip(&widths).map(|(cell, &width)| format!("{cell:width$}")).collect();
        writeln!(out, "{}", padded.join("  ").trim_end())
    };
    line(&mut header.iter().copied())?;
    for row in rows {
        line(&mut row.iter().map(String::as_str))?;
    }
    Ok(())
}

/// Whether the reader of our output has closed the pipe, as far as can be told without writing to it.
pub(crate) fn is_reader_gone() -> bool {
    let out = io::stdout();
    let mut out = [PollFd::new(&out, PollFlags::empty())];
    let now = Timespec::default();
    poll(&mut out, Some(&now)).is_ok() && out[0].revents().contains(PollFlags::ERR)
}

/// Whether an error is that the reader of our output has closed the pipe.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io_kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
    let json_kind = error.downcast_ref::<serde_json::Error>().and_then(serde_json::Error::io_error_kind);
    io_kind.or(json_kind) == Some(io::ErrorKind::BrokenPipe)
}
