//! What the journal's threads share.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use contactd_core::{RefusedKind, Ticket};
use parking_lot::Mutex;

use crate::locked_dir::LockedDir;
use crate::queue::Queue;
use crate::rotation::Rotation;
use crate::sync::Syncer;

/// What the journal's threads share.
pub(crate) struct Shared {
    /// The directory stays locked until the last thread has ended.
    pub(crate) dir: LockedDir,
    pub(crate) queue: Queue,
    pub(crate) sync: Syncer,
    pub(crate) rotation: Rotation,
    pub(crate) is_down: AtomicBool,
    pub(crate) written: AtomicU64,
    /// Lines that were refused or could not be written.
    pub(crate) lost: AtomicU64,
    /// Lost lines that the journal has not recorded yet.
    pub(crate) unsaid: AtomicU64,
    /// The number of the first line of the open segment.
    pub(crate) open: AtomicU64,
    /// The number of the last line.
    pub(crate) last: AtomicU64,
    /// Somebody waits for a checkpoint.
    pub(crate) must_sign: AtomicBool,
    /// The journal was not as the last server had left it: what was found, until the journal records it.
    broken: Mutex<Option<String>>,
    /// Refused requests that are recorded together.
    refused: Mutex<HashMap<RefusedKind, u64>>,
    /// Numbers of written lines for which nothing was disclosed, and which the journal does not know yet.
    taken_back: Mutex<Vec<u64>>,
}

impl Shared {
    pub(crate) fn new(dir: LockedDir) -> Self {
        Self {
            dir,
            queue: Queue::new(),
            sync: Syncer::default(),
            rotation: Rotation::default(),
            is_down: AtomicBool::new(false),
            written: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            unsaid: AtomicU64::new(0),
            open: AtomicU64::new(0),
            last: AtomicU64::new(0),
            must_sign: AtomicBool::new(false),
            broken: Mutex::default(),
            refused: Mutex::default(),
            taken_back: Mutex::default(),
        }
    }

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

    pub(crate) fn take_back(&self, line: u64) {
        self.taken_back.lock().push(line);
        self.queue.poke();
    }

    /// The lines that were taken back since the last call, in order.
    pub(crate) fn taken_back(&self) -> Vec<u64> {
        let mut lines = std::mem::take(&mut *self.taken_back.lock());
        lines.sort_unstable();
        lines
    }

    /// The journal was not as the last server had left it: the next segment says so.
    pub(crate) fn note_broken(&self, what: String) {
        *self.broken.lock() = Some(what);
        self.queue.poke();
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.broken.lock().is_some()
    }

    pub(crate) fn take_broken(&self) -> Option<String> {
        self.broken.lock().take()
    }

    pub(crate) fn count_refused(&self, kind: RefusedKind) {
        let mut refused = self.refused.lock();
        let is_first = refused.is_empty();
        *refused.entry(kind).or_default() += 1;
        drop(refused);
        if is_first {
            // The writer has to know that there is something to write within a second.
            self.queue.poke();
        }
    }

    /// What was counted since the last call.
    pub(crate) fn take_refused(&self) -> HashMap<RefusedKind, u64> {
        std::mem::take(&mut *self.refused.lock())
    }

    pub(crate) fn has_refused(&self) -> bool {
        !self.refused.lock().is_empty()
    }

    /// Puts counts back that could not be written.
    pub(crate) fn return_refused(&self, counts: HashMap<RefusedKind, u64>) {
        let mut refused = self.refused.lock();
        for (kind, count) in counts {
            *refused.entry(kind).or_default() += count;
        }
    }
}
