//! The progress of a long command: one line that is updated on a terminal, a new line every few seconds otherwise.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use contactd_core::Progress;

use crate::output;

const EVERY_ON_A_TERMINAL: Duration = Duration::from_millis(100);
const EVERY_ELSEWHERE: Duration = Duration::from_secs(5);
const BAR: usize = 24;

/// Prints once that a command is waiting.
pub(crate) struct Waiting {
    words: &'static str,
    was_said: AtomicBool,
}

impl Waiting {
    /// For commands that can only wait for their turn to write.
    pub(crate) const fn for_the_store() -> Self {
        Self::new("waiting: another command is writing to the store")
    }

    pub(crate) const fn new(words: &'static str) -> Self {
        Self { words, was_said: AtomicBool::new(false) }
    }

    pub(crate) fn show(&self, step: Progress) {
        if step == Progress::Waiting && !self.was_said.swap(true, Ordering::Relaxed) {
            output::words(format_args!("{}", self.words));
        }
    }
}

/// Shows the progress of a service call.
pub(crate) struct Shown {
    line: ProgressLine,
    waiting: Waiting,
}

impl Shown {
    pub(crate) fn new() -> Self {
        Self { line: ProgressLine::new(), waiting: Waiting::for_the_store() }
    }

    pub(crate) fn show(&self, step: Progress) {
        let share = |(done, all): (u64, u64)| done as f64 / all.max(1) as f64;
        match step {
            Progress::Reading { rows, bytes } => self.line.show("reading", rows, bytes.map(share)),
            Progress::Writing { rows, all } => self.line.show("writing", rows, Some(share((rows, all)))),
            Progress::Waiting | Progress::Suppressed { .. } => self.waiting.show(step),
        }
    }

    /// Clears the progress line on a terminal.
    pub(crate) fn end(&self) {
        self.line.end();
    }
}

/// The progress line.
pub(crate) struct ProgressLine {
    is_terminal: bool,
    state: Mutex<State>,
}

struct State {
    phase: &'static str,
    began: Instant,
    shown: Option<Instant>,
}

impl ProgressLine {
    pub(crate) fn new() -> Self {
        let state = State { phase: "", began: Instant::now(), shown: None };
        Self { is_terminal: io::stderr().is_terminal(), state: Mutex::new(state) }
    }

    /// Shows how many rows are done and, if known, their share of all work.
    pub(crate) fn show(&self, phase: &'static str, rows: u64, share: Option<f64>) {
        let now = Instant::now();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.phase != phase {
            *state = State { phase, began: now, shown: Some(now) };
            return;
        }
        let every = if self.is_terminal { EVERY_ON_A_TERMINAL } else { EVERY_ELSEWHERE };
        if state.shown.is_some_and(|shown| now - shown < every) {
            return;
        }
        state.shown = Some(now);
        let line = text(phase, rows, share, now - state.began, self.is_terminal);
        if self.is_terminal {
            let _ = write!(io::stderr().lock(), "\r\x1b[K{line}");
        } else {
            output::words(format_args!("{line}"));
        }
    }

    /// Clears the progress line on a terminal.
    pub(crate) fn end(&self) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_terminal && state.shown.is_some() {
            let _ = write!(io::stderr().lock(), "\r\x1b[K");
        }
    }
}

fn text(phase: &str, rows: u64, share: Option<f64>, took: Duration, with_bar: bool) -> String {
    let seconds = took.as_secs_f64();
    let line = format!("{phase}: {rows} rows, {:.0} rows/s", rows as f64 / seconds);
    let Some(share) = share.filter(|share| (0.01..=1.0).contains(share)) else { return line };
    let left = seconds / share - seconds;
    let line = format!("{line}, {:.0} %, about {left:.0} s left", share * 100.0);
    if !with_bar {
        return line;
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of the bar")]
    let full = (share * BAR as f64) as usize;
    format!("[{}{}] {line}", "#".repeat(full), ".".repeat(BAR - full))
}
