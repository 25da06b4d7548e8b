//! Bringing lines to disk behind the writer's back: what is handed to the operating system is synced within 100 ms.

use std::fs::File;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// From the first line that is not on disk to its sync. With the sync itself that is within 100 ms on a disk that works.
const DELAY: Duration = Duration::from_millis(60);
/// A sync that takes longer than this hangs. A disk that is very busy may take seconds.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Default)]
pub(crate) struct Syncer {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    /// What has lines that are not on disk, and the number of the last of them.
    dirty: Option<(Arc<File>, u64)>,
    /// The last line that is on disk for certain.
    synced_through: u64,
    /// A sync failed: lines behind `synced_through` may be lost.
    has_failed: bool,
    /// When the sync that is under way began.
    syncing_since: Option<Instant>,
    is_closed: bool,
}

impl Syncer {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lines up to `last` were handed to the operating system.
    pub(crate) fn note_written(&self, file: &Arc<File>, last: u64) {
        let mut state = self.state();
        let was_clean = state.dirty.is_none();
        state.dirty = Some((Arc::clone(file), last));
        if was_clean {
            self.wake.notify_one();
        }
    }

    /// Lines up to `last` are on disk, unless an earlier sync has failed: then the disk may have lost some and forgotten
    /// about it.
    pub(crate) fn note_synced(&self, last: u64) {
        let mut state = self.state();
        if !state.has_failed {
            state.synced_through = last;
            state.dirty = None;
        }
    }

    /// A new segment is on disk up to `last`. If a sync had failed before, that is over where the segment says so.
    pub(crate) fn note_begun(&self, last: u64, reported: Option<u64>) {
        let mut state = self.state();
        if state.has_failed && reported.is_none() {
            return;
        }
        state.synced_through = last;
        state.dirty = None;
        state.has_failed = false;
    }

    /// If a sync failed: the last line that is on disk for certain.
    pub(crate) fn failure(&self) -> Option<u64> {
        let state = self.state();
        state.has_failed.then_some(state.synced_through)
    }

    /// A sync failed.
    pub(crate) fn note_failure(&self) {
        self.state().has_failed = true;
    }

    /// Whether a sync has been under way for far too long.
    pub(crate) fn is_hung(&self) -> bool {
        self.state().syncing_since.is_some_and(|since| since.elapsed() > PATIENCE)
    }

    pub(crate) fn close(&self) {
        self.state().is_closed = true;
        self.wake.notify_all();
    }

    /// Syncs until it is closed and everything is on disk.
    pub(crate) fn run(&self) {
        loop {
            let mut state = self
                .wake
                .wait_while(self.state(), |state| state.dirty.is_none() && !state.is_closed)
                .unwrap_or_else(PoisonError::into_inner);
            if !state.is_closed {
                // More lines come meanwhile, and go along.
                state = self
                    .wake
                    .wait_timeout_while(state, DELAY, |state| !state.is_closed)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0;
            }
            let Some((file, last)) = state.dirty.take() else {
                if state.is_closed {
                    return;
                }
                continue;
            };
            state.syncing_since = Some(Instant::now());
            drop(state);
            let synced = file.sync_data();
            let mut state = self.state();
            state.syncing_since = None;
            match synced {
                Ok(()) if !state.has_failed => state.synced_through = state.synced_through.max(last),
                Ok(()) => {}
                Err(error) => {
                    state.has_failed = true;
                    tracing::error!(
                        %error,
                        synced_through = state.synced_through,
                        "the audit journal could not be synced: lines since the last good sync may be lost"
                    );
                }
            }
        }
    }
}
