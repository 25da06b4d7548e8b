//! The queue of lines for the writer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use contactd_core::{Batch, Ticket};
use parking_lot::{Condvar, Mutex};

use crate::WRITE_TIMEOUT;

/// With more bytes than this in the queue, new lines are refused: the writer is not writing at all.
const MAX_BYTES: usize = 64 << 20;

pub(crate) struct Queue {
    state: Mutex<State>,
    wake: Condvar,
    began: Instant,
    /// When the writer began its current work, in milliseconds since `began` plus one; zero while it is idle.
    busy_since: AtomicU64,
}

#[derive(Default)]
struct State {
    lines: WaitingLines,
    batch: Arc<Batch>,
    is_flushed: bool,
    is_poked: bool,
    is_closed: bool,
}

/// Queued lines, still without their numbers and chain values, stored one after the other.
#[derive(Default)]
pub(crate) struct WaitingLines {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl WaitingLines {
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = [0].into_iter().chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| &self.bytes[start..end])
    }

    fn push(&mut self, fields: &[u8]) {
        self.bytes.extend_from_slice(fields);
        self.ends.push(self.bytes.len());
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(1 << 20);
        self.ends.clear();
        self.ends.shrink_to(1 << 14);
    }
}

/// What the writer has to do next.
pub(crate) enum Next {
    /// Write the lines, then settle this batch.
    Write(Arc<Batch>),
    /// Nothing: the wait timed out, or something else is to be done.
    Idle,
    /// Stop: the queue is closed and empty.
    End,
}

impl Queue {
    pub(crate) fn new() -> Self {
        Self {
            state: Mutex::default(),
            wake: Condvar::new(),
            began: Instant::now(),
            busy_since: AtomicU64::new(0),
        }
    }

    /// Queues a line; none if the queue is closed or too full, or the writer hangs.
    pub(crate) fn push(&self, fields: &[u8]) -> Option<Ticket> {
        let mut state = self.state.lock();
        if state.is_closed || state.lines.bytes.len() > MAX_BYTES || self.is_hung() {
            return None;
        }
        let line = u32::try_from(state.lines.len()).unwrap_or(u32::MAX);
        state.lines.push(fields);
        Some(state.batch.ticket(line))
    }

    /// Passes the queued lines to the writer.
    pub(crate) fn flush(&self) {
        let mut state = self.state.lock();
        if state.lines.len() > 0 && !state.is_flushed {
            state.is_flushed = true;
            // Unlocked first, because the writer locks it as soon as it is woken.
            drop(state);
            self.wake.notify_one();
        }
    }

    /// Wakes the writer although there may be no lines.
    pub(crate) fn poke(&self) {
        self.state.lock().is_poked = true;
        self.wake.notify_one();
    }

    pub(crate) fn close(&self) {
        self.state.lock().is_closed = true;
        self.wake.notify_all();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state.lock().is_closed
    }

    /// For the writer: waits for lines and moves them into `written`, whose old content is discarded.
    pub(crate) fn next(&self, written: &mut WaitingLines, patience: Duration) -> Next {
        self.busy_since.store(0, Ordering::Release);
        written.clear();
        let mut state = self.state.lock();
        let is_waiting = |state: &mut State| !state.is_flushed && !state.is_poked && !state.is_closed;
        self.wake.wait_while_for(&mut state, is_waiting, patience);
        state.is_poked = false;
        if state.lines.len() == 0 {
            return if state.is_closed { Next::End } else { Next::Idle };
        }
        if !state.is_flushed && !state.is_closed {
            return Next::Idle;
        }
        state.is_flushed = false;
        std::mem::swap(&mut state.lines, written);
        let batch = std::mem::replace(&mut state.batch, Batch::begin());
        self.note_busy();
        Next::Write(batch)
    }

    /// For the writer: it begins work that may hang. The work ends with the next call of [`Self::next`].
    pub(crate) fn note_busy(&self) {
        self.busy_since.store(self.millis(), Ordering::Release);
    }

    /// Whether the writer's current work has taken too long.
    pub(crate) fn is_hung(&self) -> bool {
        let since = self.busy_since.load(Ordering::Acquire);
        since != 0 && self.millis() > since + u64::try_from(WRITE_TIMEOUT.as_millis()).unwrap_or(u64::MAX)
    }

    fn millis(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX - 1) + 1
    }
}
