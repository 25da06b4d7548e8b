//! The progress of a long command: one line that is updated on a terminal, a new line every few seconds otherwise.

use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use contactd_core::Progress;
use parking_lot::{Condvar, Mutex};

use crate::output;

const EVERY_ON_A_TERMINAL: Duration = Duration::from_millis(100);
const EVERY_ELSEWHERE: Duration = Duration::from_secs(5);
/// How long a step takes before it is shown.
const SHOWN_AFTER: Duration = Duration::from_secs(1);
const BAR: usize = 24;

/// Says once that a command waits for its turn to write.
pub(crate) fn waiting() -> impl Fn(Progress) + Send + Sync {
    saying_once("waiting: another command is writing to the store")
}

/// Says this once, if a command waits.
pub(crate) fn saying_once(words: &'static str) -> impl Fn(Progress) + Send + Sync {
    let was_said = AtomicBool::new(false);
    move |step| {
        if step == Progress::Waiting && !was_said.swap(true, Ordering::Relaxed) {
            output::words(format_args!("{words}"));
        }
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
    waiting: Box<dyn Fn(Progress) + Send + Sync>,
}

struct WorkShared {
    state: Mutex<WorkState>,
    is_over: Condvar,
}

struct WorkState {
    step: &'static str,
    began: Instant,
    /// How much is done, and of what.
    done: Option<(u64, &'static str)>,
    /// How much of all work that is, if it is known.
    share: Option<f64>,
    is_over: bool,
}

/// What is counted with its rate.
pub(crate) const ROWS: &str = "rows";

impl Working {
    pub(crate) fn start(step: &'static str) -> Self {
        let state = WorkState { step, began: Instant::now(), done: None, share: None, is_over: false };
        let shared = Arc::new(WorkShared { state: Mutex::new(state), is_over: Condvar::new() });
        let shown = Arc::clone(&shared);
        // Without this thread there is no progress to see, and nothing else is missing.
        let thread = std::thread::Builder::new().name("progress".to_owned()).spawn(move || shown.show()).ok();
        Self { shared, thread, waiting: Box::new(waiting()) }
    }

    /// For a command that prints data as it goes. On the terminal that shows the data, there is no progress besides it.
    pub(crate) fn beside_data(step: &'static str) -> Option<Self> {
        (!io::stdout().is_terminal()).then(|| Self::start(step))
    }

    /// Shows how much of a step is done.
    pub(crate) fn count(&self, step: &'static str, done: Option<(u64, &'static str)>, share: Option<f64>) {
        let mut state = self.shared.state.lock();
        if state.step != step {
            (state.step, state.began) = (step, Instant::now());
        }
        (state.done, state.share) = (done, share);
    }

    /// Takes over the progress of a service call.
    pub(crate) fn show(&self, progress: Progress) {
        match progress {
            Progress::Reading { rows, bytes } => {
                self.count("reading", Some((rows, ROWS)), bytes.map(|(done, all)| share(done, all)));
            }
            Progress::Writing { rows, all } => {
                self.count("writing", Some((rows, ROWS)), Some(share(rows, all)));
            }
            Progress::Copying { step, done, all } => {
                self.count(step, None, all.map(|all| share(done, all)));
            }
            Progress::Waiting => {
                (self.waiting)(progress);
                self.count("waiting", None, None);
            }
            Progress::Suppressed { .. } | Progress::Checking { .. } => {}
        }
    }
}

/// The share of all work that is done.
pub(crate) fn share(done: u64, all: u64) -> f64 {
    done as f64 / all.max(1) as f64
}

impl WorkShared {
    fn show(&self) {
        let is_terminal = io::stderr().is_terminal();
        let every = if is_terminal { EVERY_ON_A_TERMINAL } else { EVERY_ELSEWHERE };
        let mut state = self.state.lock();
        while !state.is_over {
            self.is_over.wait_for(&mut state, every);
            let took = state.began.elapsed();
            if !state.is_over && took >= SHOWN_AFTER {
                output::progress(&state.text(took, is_terminal), is_terminal);
            }
        }
    }
}

impl WorkState {
    fn text(&self, took: Duration, with_bar: bool) -> String {
        let (step, seconds) = (self.step, took.as_secs_f64());
        let line = match self.done {
            Some((rows, ROWS)) => format!("{step}: {rows} rows, {:.0} rows/s", rows as f64 / seconds),
            Some((count, unit)) => format!("{step}: {count} {unit}, {} s", took.as_secs()),
            None if self.share.is_some() => step.to_owned(),
            None => format!("{step}: {} s", took.as_secs()),
        };
        let Some(share) = self.share.filter(|share| (0.01..=1.0).contains(share)) else { return line };
        let left = seconds / share - seconds;
        let line = format!("{line}, {:.0} %, about {left:.0} s left", share * 100.0);
        if !with_bar {
            return line;
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of the bar")]
        let full = (share * BAR as f64) as usize;
        format!("[{}{}] {line}", "#".repeat(full), ".".repeat(BAR - full))
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.shared.state.lock().is_over = true;
        self.shared.is_over.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        output::end_progress();
    }
}
