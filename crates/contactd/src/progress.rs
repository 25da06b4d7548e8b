//! How far an import is: a line that renews itself on a terminal, a line every few seconds elsewhere.

use std::cell::Cell;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::output;

const EVERY_ON_A_TERMINAL: Duration = Duration::from_millis(100);
const EVERY_ELSEWHERE: Duration = Duration::from_secs(5);
const BAR: usize = 24;

pub(crate) struct Progress {
    began: Cell<Instant>,
    phase: Cell<&'static str>,
    shown: Cell<Option<Instant>>,
    is_terminal: bool,
    /// Bytes read, and how many there are, where that is known.
    read: Arc<AtomicU64>,
    size: Option<u64>,
}

impl Progress {
    pub(crate) fn new(size: Option<u64>) -> Self {
        Self {
            began: Cell::new(Instant::now()),
            phase: Cell::new(""),
            shown: Cell::new(None),
            is_terminal: io::stderr().is_terminal(),
            read: Arc::default(),
            size,
        }
    }

    /// Where bytes that were read are counted.
    pub(crate) fn read(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.read)
    }

    /// So many rows have been read.
    pub(crate) fn show(&self, phase: &'static str, rows: u64) {
        let share = self.size.map(|size| self.read.load(Ordering::Relaxed) as f64 / size.max(1) as f64);
        self.line(phase, rows, share);
    }

    /// So many of all rows have been dealt with.
    pub(crate) fn show_share(&self, phase: &'static str, rows: u64, all: u64) {
        self.line(phase, rows, Some(rows as f64 / all.max(1) as f64));
    }

    fn line(&self, phase: &'static str, rows: u64, share: Option<f64>) {
        let now = Instant::now();
        if self.phase.replace(phase) != phase {
            self.began.set(now);
            self.shown.set(Some(now));
            return;
        }
        let every = if self.is_terminal { EVERY_ON_A_TERMINAL } else { EVERY_ELSEWHERE };
        if self.shown.get().is_some_and(|shown| now - shown < every) {
            return;
        }
        self.shown.set(Some(now));
        let seconds = (now - self.began.get()).as_secs_f64();
        let mut line = format!("{phase}: {rows} rows, {:.0} rows/s", rows as f64 / seconds);
        if let Some(share) = share.filter(|share| (0.01..=1.0).contains(share)) {
            let left = seconds / share - seconds;
            line.push_str(&format!(", {:.0} %, about {left:.0} s left", share * 100.0));
            if self.is_terminal {
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "a share of the bar"
                )]
                let full = (share * BAR as f64) as usize;
                line = format!("[{}{}] {line}", "#".repeat(full), ".".repeat(BAR - full));
            }
        }
        if self.is_terminal {
            let _ = write!(io::stderr().lock(), "\r\x1b[K{line}");
        } else {
            output::words(format_args!("{line}"));
        }
    }

    /// Leaves no half line behind.
    pub(crate) fn end(&self) {
        if self.is_terminal && self.shown.get().is_some() {
            let _ = write!(io::stderr().lock(), "\r\x1b[K");
        }
    }
}
