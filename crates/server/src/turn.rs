//! A worker's turn: every request that is ready is worked on, then all their answers are written.
//!
//! One step's code stays in the processor's cache that way, and a client is woken once for many
//! answers instead of once for each. A request that is alone has a turn of its own and waits for nobody.
//!
//! Requests that were recorded wait for the journal as well: their lines go to it at the end of the turn, all
//! at once, and this worker is woken once when they are written.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use contactd_core::{Fate, Ticket};

use crate::connection::WorkerClock;

/// So many requests in one turn are a crowd.
const CROWD: usize = 6;

pub(crate) struct Turn {
    clock: Rc<WorkerClock>,
    /// How long a request waits for its line.
    patience: Duration,
    number: Cell<u64>,
    /// Those whose work is done and whose answer is not written.
    waiting: RefCell<Vec<Waker>>,
    /// Those who wait for their lines, the lines of this turn.
    recording: RefCell<Option<Recording>>,
    /// The same of earlier turns, in order.
    recorded: RefCell<VecDeque<Recording>>,
    /// The task that ends turns.
    ender: RefCell<Option<Waker>>,
}

/// Requests whose lines were given to the journal in one turn.
struct Recording {
    /// The last of them: lines are written in order.
    last: Ticket,
    waiting: Vec<Waker>,
    /// Since when the last of them has been waiting.
    since: Duration,
}

impl Turn {
    pub(crate) fn new(clock: Rc<WorkerClock>, patience: Duration) -> Self {
        Self {
            clock,
            patience,
            number: Cell::new(0),
            waiting: RefCell::default(),
            recording: RefCell::default(),
            recorded: RefCell::default(),
            ender: RefCell::default(),
        }
    }

    /// Ends turns, for ever. Being a task like the connections, it comes after all that were ready
    /// when it was woken. `flush` has the journal write what it was given.
    pub(crate) async fn run(&self, flush: impl Fn()) {
        loop {
            let asking = poll_fn(|cx| {
                self.ender.replace(Some(cx.waker().clone()));
                self.tell_the_recorded(cx);
                match self.asking() {
                    0 => Poll::Pending,
                    asking => Poll::Ready(asking),
                }
            })
            .await;
            if asking >= CROWD {
                // More have arrived meanwhile, most likely, and the journal costs the same for all.
                tokio::task::yield_now().await;
            }
            self.number.update(|number| number + 1);
            self.waiting.borrow_mut().drain(..).for_each(Waker::wake);
            if let Some(recording) = self.recording.take() {
                flush();
                self.recorded.borrow_mut().push_back(recording);
            }
        }
    }

    /// How many wait for the end of the turn.
    fn asking(&self) -> usize {
        self.waiting.borrow().len()
            + self.recording.borrow().as_ref().map_or(0, |recording| recording.waiting.len())
    }

    /// Wakes those whose lines are written, or have been waited for too long.
    fn tell_the_recorded(&self, cx: &Context<'_>) {
        let mut recorded = self.recorded.borrow_mut();
        while let Some(first) = recorded.front()
            && (self.is_over(first.since) || first.last.poll_settled(cx).is_ready())
        {
            recorded.pop_front().into_iter().flat_map(|done| done.waiting).for_each(Waker::wake);
        }
    }

    fn is_over(&self, since: Duration) -> bool {
        self.clock.elapsed() >= since + self.patience
    }

    /// To be called at every tick of the clock: notices what has been waited for too long.
    pub(crate) fn tick(&self) {
        if !self.recorded.borrow().is_empty() {
            self.wake_ender();
        }
    }

    /// Ready when everyone else who was ready has been worked on.
    pub(crate) async fn end(&self) {
        let this = self.number.get();
        poll_fn(|cx| {
            if self.number.get() != this {
                return Poll::Ready(());
            }
            self.waiting.borrow_mut().push(cx.waker().clone());
            self.wake_ender();
            Poll::Pending
        })
        .await;
    }

    /// Ready when everyone else has been worked on and the fate of the line is decided, or it has been waited for too
    /// long.
    pub(crate) async fn recorded(&self, ticket: &Ticket) {
        if ticket.fate() != Fate::Waiting {
            return self.end().await;
        }
        let since = self.clock.elapsed();
        poll_fn(|cx| {
            if ticket.fate() != Fate::Waiting || self.is_over(since) {
                return Poll::Ready(());
            }
            // Every time: whoever woke this may have forgotten it since.
            self.wait_for(ticket, since, cx);
            Poll::Pending
        })
        .await;
    }

    fn wait_for(&self, ticket: &Ticket, since: Duration, cx: &Context<'_>) {
        let mut recording = self.recording.borrow_mut();
        match &mut *recording {
            Some(recording) => {
                if !recording.last.shares_fate_with(ticket) {
                    recording.last = ticket.clone();
                }
                recording.since = since;
                recording.waiting.push(cx.waker().clone());
            }
            None => {
                *recording =
                    Some(Recording { last: ticket.clone(), waiting: vec![cx.waker().clone()], since });
                self.wake_ender();
            }
        }
    }

    fn wake_ender(&self) {
        if let Some(ender) = &*self.ender.borrow() {
            ender.wake_by_ref();
        }
    }
}
