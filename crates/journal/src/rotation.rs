//! What the writer of a journal and the thread that changes its keys hand to each other.

use std::fs::File;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use crate::epoch::EpochKeys;

/// Keys and seals on their way between the two threads.
#[derive(Default)]
pub(crate) struct Rotation {
    pub(crate) state: Mutex<State>,
    pub(crate) wake: Condvar,
}

#[derive(Default)]
pub(crate) struct State {
    /// The keys of the next epoch, on disk, for the writer: it is time to seal this one. If it cannot, it puts them back.
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
    /// For the writer: the seal is written.
    pub(crate) fn note_sealed(&self, sealed: EndedEpoch) {
        self.state.lock().sealed = Some(sealed);
        self.wake.notify_all();
    }

    pub(crate) fn close(&self) {
        self.state.lock().is_closed = true;
        self.wake.notify_all();
    }
}
