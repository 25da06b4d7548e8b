//! Syncs lines to disk in the background, within 100 ms after the operating system received them.
//!
//! Two threads do this. The first one syncs early and only while its core has nothing else to do: a sync costs the
//! processor up to a millisecond, which lookups on the same core would wait for. If it does not get to it in time, the
//! second one syncs at once.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// The delay from the first unsynced line to a sync that waits for a free core.
pub(crate) const EARLY: Duration = Duration::from_millis(40);
/// The delay to a sync that does not. On a working disk, this and the sync take less than 100 ms.
pub(crate) const LATE: Duration = Duration::from_millis(80);
/// A late sync that takes longer than this counts as hung. A very busy disk may take seconds.
const HUNG_AFTER: Duration = Duration::from_secs(30);

#[derive(Default)]
pub(crate) struct Syncer {
    state: Mutex<State>,
    wake: Condvar,
    /// Whether a late sync is under way. Every line asks, so this spares it the lock.
    is_late: AtomicBool,
}

#[derive(Default)]
struct State {
    /// The file with unsynced lines, and the number of the last of them.
    dirty: Option<(Arc<File>, u64)>,
    /// When the first of them was written.
    dirty_since: Option<Instant>,
    /// The last line that is certainly on disk.
    synced_through: u64,
    /// A sync failed: lines after `synced_through` may be lost.
    has_failed: bool,
    /// When the current late sync began.
    syncing_since: Option<Instant>,
    is_closed: bool,
}

impl Syncer {
    /// Lines up to `last` were written to the operating system.
    pub(crate) fn note_written(&self, file: &Arc<File>, last: u64) {
        let mut state = self.state.lock();
        let was_clean = state.dirty.is_none();
        state.dirty = Some((Arc::clone(file), last));
        if was_clean {
            state.dirty_since = Some(Instant::now());
            self.wake.notify_all();
        }
    }

    /// Lines up to `last` were synced. Ignored after a failed sync: a later sync can succeed although lines were
    /// lost.
    pub(crate) fn note_synced(&self, last: u64) {
        let mut state = self.state.lock();
        if !state.has_failed {
            state.synced_through = last;
            state.dirty = None;
        }
    }

    /// A new segment is on disk up to line `last`. This clears an earlier sync failure if the segment reports it.
    pub(crate) fn note_begun(&self, last: u64, reported: Option<u64>) {
        let mut state = self.state.lock();
        if state.has_failed && reported.is_none() {
            return;
        }
        state.synced_through = last;
        state.dirty = None;
        state.has_failed = false;
    }

    /// The last line that is certainly on disk.
    pub(crate) fn synced_through(&self) -> u64 {
        self.state.lock().synced_through
    }

    /// If a sync failed: the last line that is certainly on disk.
    pub(crate) fn failure(&self) -> Option<u64> {
        let state = self.state.lock();
        state.has_failed.then_some(state.synced_through)
    }

    /// A sync failed.
    pub(crate) fn note_failure(&self) {
        self.state.lock().has_failed = true;
    }

    /// Whether the current sync has taken too long.
    pub(crate) fn is_hung(&self) -> bool {
        self.is_late.load(Ordering::Relaxed)
            && self.state.lock().syncing_since.is_some_and(|since| since.elapsed() > HUNG_AFTER)
    }

    pub(crate) fn close(&self) {
        self.state.lock().is_closed = true;
        self.wake.notify_all();
    }

    /// Syncs lines `delay` after they were written, until this is closed and no unsynced lines are left.
    pub(crate) fn run(&self, delay: Duration) {
        loop {
            let mut state = self.state.lock();
            self.wake.wait_while(&mut state, |state| state.dirty.is_none() && !state.is_closed);
            if !state.is_closed {
                // Lines that arrive during this delay are synced together.
                let age = state.dirty_since.map_or(Duration::ZERO, |since| since.elapsed());
                let is_waiting = |state: &mut State| state.dirty.is_some() && !state.is_closed;
                self.wake.wait_while_for(&mut state, is_waiting, delay.saturating_sub(age));
            }
            let is_due = state.is_closed || state.dirty_since.is_some_and(|since| since.elapsed() >= delay);
            if state.dirty.is_none() && state.is_closed {
                return;
            }
            let Some((file, last)) = state.dirty.take_if(|_| is_due) else { continue };
            let is_late = delay == LATE;
            if is_late {
                state.syncing_since = Some(Instant::now());
                self.is_late.store(true, Ordering::Relaxed);
            }
            drop(state);
            let synced = file.sync_data();
            let mut state = self.state.lock();
            if is_late {
                state.syncing_since = None;
                self.is_late.store(false, Ordering::Relaxed);
            }
            match synced {
                Ok(()) if !state.has_failed => state.synced_through = state.synced_through.max(last),
                Ok(()) => {}
                Err(error) => {
                    state.has_failed = true;
                    tracing::error!(
                        %error,
                        synced_through = state.synced_through,
                        "cannot sync the audit journal: lines since the last successful sync may be lost"
                    );
                }
            }
        }
    }
}
