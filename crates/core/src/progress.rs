//! How far a long action is, and stopping it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A step of a long action. It is reported often: whoever shows it decides how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Somebody else is writing details; reported again with every try.
    Waiting,
    /// The person is suppressed and that is in force; removing their details comes next.
    Suppressed,
    /// Rows are read and checked. `bytes` are those of the files, read and in all, where that is known.
    Reading {
        /// Rows read so far.
        rows: u64,
        /// Bytes read so far, and bytes in all.
        bytes: Option<(u64, u64)>,
    },
    /// Rows are written.
    Writing {
        /// Rows written so far.
        rows: u64,
        /// Rows in all.
        all: u64,
    },
}

/// Receives the progress of an action.
pub type Observer<'a> = &'a (dyn Fn(Progress) + Sync);

/// Ignores progress.
pub const fn unobserved(_: Progress) {}

/// A wish to stop an action. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Asks the action to stop. It stops at the next place where nothing is lost by it.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the action was asked to stop.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
