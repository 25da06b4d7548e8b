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

use crate::worker_clock::WorkerClock;

/// This many requests in one turn are a crowd.
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
    turn_task: RefCell<Option<Waker>>,
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
            turn_task: RefCell::default(),
        }
    }

    /// Ends turns, for ever. Being a task like the connections, it comes after all that were ready
    /// when it was woken. `flush` has the journal write what it was given.
    pub(crate) async fn run(&self, flush: impl Fn()) {
        loop {
            let asking = poll_fn(|cx| {
                self.turn_task.replace(Some(cx.waker().clone()));
                self.wake_recorded(cx);
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
    fn wake_recorded(&self, cx: &Context<'_>) {
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
            self.wake_turn_task();
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
            self.wake_turn_task();
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
                self.wake_turn_task();
            }
        }
    }

    fn wake_turn_task(&self) {
        if let Some(task) = &*self.turn_task.borrow() {
            task.wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{at, run};
    use contactd_core::Batch;
    use tokio::task::spawn_local;

    const PATIENCE: Duration = Duration::from_secs(3);

    struct Worker {
        turn: Rc<Turn>,
        clock: Rc<WorkerClock>,
        flushed: Rc<Cell<u32>>,
        done: Rc<Cell<u32>>,
    }

    impl Worker {
        fn start() -> Self {
            let clock = Rc::new(WorkerClock::new(at()));
            let turn = Rc::new(Turn::new(Rc::clone(&clock), PATIENCE));
            let flushed = Rc::new(Cell::new(0));
            let (running, counting) = (Rc::clone(&turn), Rc::clone(&flushed));
            spawn_local(async move { running.run(|| counting.set(counting.get() + 1)).await });
            Self { turn, clock, flushed, done: Rc::default() }
        }

        /// A request that waits for its line.
        fn record(&self, ticket: Ticket) {
            let (turn, done) = (Rc::clone(&self.turn), Rc::clone(&self.done));
            spawn_local(async move {
                turn.recorded(&ticket).await;
                done.set(done.get() + 1);
            });
        }

        async fn settle(&self) -> (u32, u32) {
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
            (self.flushed.get(), self.done.get())
        }
    }

    #[test]
    fn whoever_is_ready_together_is_answered_together_and_the_journal_is_asked_once() {
        run(async {
            let worker = Worker::start();
            let batch = Batch::begin();
            for line in 0..3 {
                worker.record(batch.ticket(line));
            }
            assert_eq!(
                worker.settle().await,
                (1, 0),
                "flushed once, and nobody is answered before the line is written"
            );
            batch.settle(true);
            assert_eq!(worker.settle().await, (1, 3));
        });
    }

    #[test]
    fn a_request_that_is_not_recorded_waits_for_nobody() {
        run(async {
            let worker = Worker::start();
            worker.turn.end().await;
            worker.record(Ticket::settled(true));
            assert_eq!(worker.settle().await, (0, 1), "a line that is settled needs no flush");
        });
    }

    #[test]
    fn lines_are_waited_for_in_order_and_no_longer_than_patience() {
        run(async {
            let worker = Worker::start();
            let (first, second) = (Batch::begin(), Batch::begin());
            worker.record(first.ticket(0));
            assert_eq!(worker.settle().await, (1, 0));
            worker.record(second.ticket(0));
            assert_eq!(worker.settle().await, (2, 0));
            worker.clock.set(PATIENCE, at());
            worker.turn.tick();
            assert_eq!(worker.settle().await, (2, 2), "both have waited long enough");
            assert!(!first.ticket(0).is_written() && !second.ticket(0).is_written());
        });
    }
}
