//! What the journal's threads share.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use contactd_core::Ticket;

use crate::queue::Queue;
use crate::sync::Syncer;

/// What the journal's threads share.
pub(crate) struct Shared {
    pub(crate) queue: Queue,
    pub(crate) sync: Syncer,
    pub(crate) is_down: AtomicBool,
    pub(crate) written: AtomicU64,
    /// Lines that were refused or could not be written.
    pub(crate) lost: AtomicU64,
    /// Lost lines that the journal has not recorded yet.
    pub(crate) unsaid: AtomicU64,
    /// The number of the first line of the open segment.
    pub(crate) open: AtomicU64,
}

impl Shared {
    pub(crate) fn note_open(&self, segment: &Path) {
        let first = segment.file_stem().and_then(|stem| stem.to_str()?.parse().ok());
        self.open.store(first.unwrap_or(0), Ordering::Relaxed);
    }

    pub(crate) fn note_lost(&self, lines: u64) {
        self.lost.fetch_add(lines, Ordering::Relaxed);
        self.unsaid.fetch_add(lines, Ordering::Relaxed);
    }

    pub(crate) fn push(&self, fields: &[u8]) -> Ticket {
        let ticket = if self.sync.is_hung() { None } else { self.queue.push(fields) };
        ticket.unwrap_or_else(|| {
            self.note_lost(1);
            Ticket::settled(false)
        })
    }
}
