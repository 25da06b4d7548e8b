//! Progress of long actions, and cancelling them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A step of a long action. Steps are reported often; the observer decides how often to show them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Another writer is active; reported again with every attempt.
    Waiting,
    /// The person is suppressed; removing their details comes next.
    Suppressed {
        /// Whether that is in force.
        is_confirmed: bool,
    },
    /// Rows are being read and checked.
    Reading {
        /// Rows read so far.
        rows: u64,
        /// Bytes of the files read so far, and in total; `None` if unknown.
        bytes: Option<(u64, u64)>,
    },
    /// Rows are being written.
    Writing {
        /// Rows written so far.
        rows: u64,
        /// Rows in total.
        all: u64,
    },
    /// Lines of a journal are being checked.
    Checking {
        /// What is done with them, in words.
        step: &'static str,
        /// Lines done so far in this step.
        lines: u64,
        /// About how many there are in all; `None` if unknown.
        all: Option<u64>,
    },
    /// Bytes are being copied or checked.
    Copying {
        /// What is done with them, in words.
        step: &'static str,
        /// Bytes done so far.
        done: u64,
        /// Bytes in total; `None` if unknown.
        all: Option<u64>,
    },
}

/// Receives the progress of an action.
pub type Observer<'a> = &'a (dyn Fn(Progress) + Sync);

/// Ignores progress.
pub const fn unobserved(_: Progress) {}

/// A request to stop an action. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Asks the action to stop. It stops at the next point where nothing is lost.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the action was asked to stop.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
