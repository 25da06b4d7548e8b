//! Lines on their way to the writer.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use contactd_core::{Batch, Ticket};

use crate::PATIENCE;

/// More than this many bytes never wait: a writer that is so far behind does not write at all.
const MAX_BYTES: usize = 64 << 20;

pub(crate) struct Queue {
    state: Mutex<State>,
    wake: Condvar,
    began: Instant,
    /// Milliseconds since the beginning, plus one, at which the writer began what it is doing; zero if nothing.
    busy_since: AtomicU64,
}

#[derive(Default)]
struct State {
    lines: Waiting,
    batch: Arc<Batch>,
    is_flushed: bool,
    is_closed: bool,
}

/// Lines without their numbers and links, one behind the other.
#[derive(Default)]
pub(crate) struct Waiting {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Waiting {
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

/// What the writer is to do next.
pub(crate) enum Next {
    /// Write the lines it was given; tell this batch.
    Write(Arc<Batch>),
    /// Nothing: the time is over.
    Idle,
    /// Write no more.
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

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a line, unless the writer hangs.
    pub(crate) fn push(&self, fields: &[u8]) -> Option<Ticket> {
        let mut state = self.state();
        if state.is_closed || state.lines.bytes.len() > MAX_BYTES || self.is_hung() {
            return None;
        }
        let line = u32::try_from(state.lines.len()).unwrap_or(u32::MAX);
        state.lines.push(fields);
        Some(state.batch.ticket(line))
    }

    /// Lets the writer have what was taken.
    pub(crate) fn flush(&self) {
        let mut state = self.state();
        if state.lines.len() > 0 && !state.is_flushed {
            state.is_flushed = true;
            self.wake.notify_one();
        }
    }

    pub(crate) fn close(&self) {
        self.state().is_closed = true;
        self.wake.notify_all();
    }

    /// For the writer: waits for lines and swaps them with `written`, which it is done with.
    pub(crate) fn next(&self, written: &mut Waiting, patience: Duration) -> Next {
        self.busy_since.store(0, Ordering::Release);
        written.clear();
        let (mut state, _) = self
            .wake
            .wait_timeout_while(self.state(), patience, |state| !state.is_flushed && !state.is_closed)
            .unwrap_or_else(PoisonError::into_inner);
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

    /// For the writer: it begins something that may hang. Over when it asks for the next.
    pub(crate) fn note_busy(&self) {
        self.busy_since.store(self.millis(), Ordering::Release);
    }

    /// Whether the writer has been at one and the same thing for too long.
    pub(crate) fn is_hung(&self) -> bool {
        let since = self.busy_since.load(Ordering::Acquire);
        since != 0 && self.millis() > since + u64::try_from(PATIENCE.as_millis()).unwrap_or(u64::MAX)
    }

    fn millis(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX - 1) + 1
    }
}
