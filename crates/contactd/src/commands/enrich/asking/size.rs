//! How many lookups to send in one request.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::client::MOST_IN_BATCH;

/// As many as the service takes. While a limit is in the way, about as many as it lets through.
pub(super) struct Size {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Size {
    pub(super) fn new() -> Self {
        Self { now: AtomicUsize::new(MOST_IN_BATCH), most: AtomicUsize::new(MOST_IN_BATCH) }
    }

    pub(super) fn now(&self) -> usize {
        self.now.load(Ordering::Relaxed).min(self.most.load(Ordering::Relaxed)).max(1)
    }

    /// A batch of this many was refused because it is too large.
    pub(super) fn is_too_large(&self, sent: usize) {
        self.most.fetch_min(sent / 2, Ordering::Relaxed);
    }

    /// All of a batch of this many were answered.
    pub(super) fn all_answered(&self, sent: usize) {
        self.now.fetch_max((2 * sent).min(MOST_IN_BATCH), Ordering::Relaxed);
    }

    /// Only this many of a batch were answered, because of a limit. The next has a few more, so that it grows when there is room.
    pub(super) fn limited_to(&self, answered: usize) {
        self.now.store(answered + answered / 4 + 1, Ordering::Relaxed);
    }
}
