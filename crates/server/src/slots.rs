//! How many connections are open. The limit can change while the service runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// Counts open connections. Only the accepting task takes slots.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    taken: AtomicUsize,
    changed: Notify,
}

/// The slot of one connection. Dropping it frees the slot.
#[derive(Debug)]
pub(crate) struct ConnectionSlot(Arc<Slots>);

impl Slots {
    /// Waits until fewer than `most()` slots are taken, and takes one.
    pub(crate) async fn take(self: &Arc<Self>, most: impl Fn() -> usize) -> ConnectionSlot {
        loop {
            if let Some(slot) = self.try_take(most()) {
                return slot;
            }
            // A slot that was freed since has stored its notice.
            self.changed.notified().await;
        }
    }

    /// Takes a slot if fewer than `most` are taken.
    pub(crate) fn try_take(self: &Arc<Self>, most: usize) -> Option<ConnectionSlot> {
        if self.are_all_taken(most) {
            return None;
        }
        self.taken.fetch_add(1, Ordering::AcqRel);
        Some(ConnectionSlot(Arc::clone(self)))
    }

    /// Whether `most` slots are taken.
    pub(crate) fn are_all_taken(&self, most: usize) -> bool {
        self.taken.load(Ordering::Acquire) >= most
    }

    /// The limit may have changed.
    pub(crate) fn look_again(&self) {
        self.changed.notify_one();
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::AcqRel);
        self.0.changed.notify_one();
    }
}
