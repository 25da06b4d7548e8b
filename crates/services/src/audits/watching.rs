//! How far a verification is.

use contactd_core::{Cancel, Observer, Progress};
use contactd_journal::JournalError;

use crate::AuditError;

/// Tells an observer which lines are checked, and whether to continue.
pub(super) struct Watching<'a> {
    observer: Observer<'a>,
    cancel: Cancel,
    step: &'static str,
    all: Option<u64>,
}

impl<'a> Watching<'a> {
    pub(super) fn new(observer: Observer<'a>, cancel: &Cancel) -> Self {
        Self { observer, cancel: cancel.clone(), step: "", all: None }
    }

    /// Begins with other lines: about `all`, if that is known.
    pub(super) fn begin(&mut self, step: &'static str, all: Option<u64>) -> Result<(), AuditError> {
        (self.step, self.all) = (step, all);
        match self.seen(0) {
            true => Ok(()),
            false => Err(JournalError::Cancelled.into()),
        }
    }

    /// So many lines of them are checked. Returns whether to continue.
    pub(super) fn seen(&mut self, lines: u64) -> bool {
        (self.observer)(Progress::Checking { step: self.step, lines, all: self.all });
        !self.cancel.is_cancelled()
    }
}
