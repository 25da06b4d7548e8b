//! The progress of a long command: one line that is updated on a terminal, a new line every few seconds otherwise.

use std::io::{self, IsTerminal};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use contactd_core::Progress;

use crate::output;

const EVERY_ON_A_TERMINAL: Duration = Duration::from_millis(100);
const EVERY_ELSEWHERE: Duration = Duration::from_secs(5);
/// How long a step takes before it is shown.
const SHOWN_AFTER: Duration = Duration::from_secs(1);
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
            Progress::Waiting
            | Progress::Suppressed { .. }
            | Progress::Checking { .. }
            | Progress::Copying { .. } => self.waiting.show(step),
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
        output::progress(&line, self.is_terminal);
    }

    /// Clears the progress line on a terminal.
    pub(crate) fn end(&self) {
        output::end_progress();
    }
}

/// Waits for work that may take long, and shows meanwhile that it goes on.
pub(crate) async fn during<T>(step: &'static str, work: impl Future<Output = T>) -> T {
    let _working = Working::start(step);
    work.await
}

/// Shows that a command is at work, once a step has taken a second, until it is dropped.
pub(crate) struct Working {
    shared: Arc<WorkShared>,
    thread: Option<JoinHandle<()>>,
}

struct WorkShared {
    state: Mutex<WorkState>,
    is_over: Condvar,
}

struct WorkState {
    step: &'static str,
    began: Instant,
    /// How much is done, in `unit`.
    done: u64,
    all: Option<u64>,
    unit: &'static str,
    is_over: bool,
}

impl Working {
    pub(crate) fn start(step: &'static str) -> Self {
        let state = WorkState { step, began: Instant::now(), done: 0, all: None, unit: "", is_over: false };
        let shared = Arc::new(WorkShared { state: Mutex::new(state), is_over: Condvar::new() });
        let shown = Arc::clone(&shared);
        // Without this thread there is no progress to see, and nothing else is missing.
        let thread = std::thread::Builder::new().name("progress".to_owned()).spawn(move || shown.show()).ok();
        Self { shared, thread }
    }

    /// For a command that prints data as it goes. On the terminal that shows the data, there is no progress besides it.
    pub(crate) fn beside_data(step: &'static str) -> Option<Self> {
        (!io::stdout().is_terminal()).then(|| Self::start(step))
    }

    /// Shows how much is done.
    pub(crate) fn count(&self, done: u64, unit: &'static str) {
        let mut state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        (state.done, state.unit) = (done, unit);
    }

    /// Takes over the progress of a service call.
    pub(crate) fn show(&self, progress: Progress) {
        if let Progress::Copying { step, done, all } = progress {
            let mut state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
            if state.step != step {
                (state.step, state.began) = (step, Instant::now());
            }
            (state.done, state.all, state.unit) = (done, all, "");
        }
    }
}

impl WorkShared {
    fn show(&self) {
        let is_terminal = io::stderr().is_terminal();
        let every = if is_terminal { EVERY_ON_A_TERMINAL } else { EVERY_ELSEWHERE };
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while !state.is_over {
            let waited = self.is_over.wait_timeout(state, every);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            let took = state.began.elapsed();
            if !state.is_over && took >= SHOWN_AFTER {
                output::progress(&state.text(took, is_terminal), is_terminal);
            }
        }
    }
}

impl WorkState {
    fn text(&self, took: Duration, with_bar: bool) -> String {
        let seconds = took.as_secs();
        match self.all {
            Some(all) => {
                with_share(self.step.to_owned(), self.done as f64 / all.max(1) as f64, took, with_bar)
            }
            None if self.unit.is_empty() => format!("{}: {seconds} s", self.step),
            None => format!("{}: {} {}, {seconds} s", self.step, self.done, self.unit),
        }
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner).is_over = true;
        self.shared.is_over.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        output::end_progress();
    }
}

fn text(phase: &str, rows: u64, share: Option<f64>, took: Duration, with_bar: bool) -> String {
    let seconds = took.as_secs_f64();
    let line = format!("{phase}: {rows} rows, {:.0} rows/s", rows as f64 / seconds);
    match share {
        Some(share) => with_share(line, share, took, with_bar),
        None => line,
    }
}

/// A line with the share of all work, and the time that is left.
fn with_share(line: String, share: f64, took: Duration, with_bar: bool) -> String {
    if !(0.01..=1.0).contains(&share) {
        return line;
    }
    let seconds = took.as_secs_f64();
    let left = seconds / share - seconds;
    let line = format!("{line}, {:.0} %, about {left:.0} s left", share * 100.0);
    if !with_bar {
        return line;
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of the bar")]
    let full = (share * BAR as f64) as usize;
    format!("[{}{}] {line}", "#".repeat(full), ".".repeat(BAR - full))
}
