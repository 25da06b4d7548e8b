//! What the writer of a journal and the thread that changes its keys hand to each other.

use std::fs::File;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::epoch::EpochKeys;

/// What the writer and this thread hand to each other.
#[derive(Default)]
pub(crate) struct Rotation {
    state: Mutex<State>,
    pub(crate) wake: Condvar,
}

#[derive(Default)]
pub(crate) struct State {
    /// The keys of the next epoch, on disk, for the writer.
    pub(crate) next: Option<EpochKeys>,
    /// The end of an epoch, written by the writer.
    pub(crate) sealed: Option<EndedEpoch>,
    pub(crate) is_closed: bool,
}

/// An epoch that has ended.
pub(crate) struct EndedEpoch {
    /// The segment with the seal.
    pub(crate) file: Arc<File>,
    /// The seal's line, without its newline.
    pub(crate) seal: Vec<u8>,
    /// The epoch that ended, and the keys of the next one.
    pub(crate) epoch: u64,
    pub(crate) current: EpochKeys,
}

impl Rotation {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For the writer: the keys of the next epoch, when it is time to seal this one.
    pub(crate) fn take_next(&self) -> Option<EpochKeys> {
        self.state().next.take()
    }

    /// For the writer: whether it is time to seal this epoch.
    pub(crate) fn has_next(&self) -> bool {
        self.state().next.is_some()
    }

    /// For the writer: the seal could not be written. It is tried again with the same keys.
    pub(crate) fn return_next(&self, keys: EpochKeys) {
        self.state().next = Some(keys);
    }

    /// For the writer: the seal is written.
    pub(crate) fn note_sealed(&self, sealed: EndedEpoch) {
        self.state().sealed = Some(sealed);
        self.wake.notify_all();
    }

    pub(crate) fn close(&self) {
        self.state().is_closed = true;
        self.wake.notify_all();
    }
}
