//! A worker's turn: all requests that are ready are processed, then all their answers are written.
//!
//! This keeps the code of each step in the processor's cache, and wakes a client once for many answers instead
//! of once for each. A single request has its own turn and does not wait for others.
//!
//! Recorded requests also wait for the journal. At the end of the turn, all their lines are passed to the journal
//! together, and this worker is woken once when they are written.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use contactd_core::{Fate, Ticket, TokenKey};

use crate::admission::{Admission, Overloaded};
use crate::worker_clock::WorkerClock;

/// A turn with at least this many requests waits once for more to arrive.
const CROWD: usize = 6;

/// How many turns with a crowd do not wait after one that waited for nothing.
const TURNS_WITHOUT_WAIT: u32 = 7;

pub(crate) struct Turn {
    clock: Rc<WorkerClock>,
    /// How long a request waits for its line to be written.
    patience: Duration,
    number: Cell<u64>,
    /// How many turns with a crowd still do not wait for more.
    no_wait: Cell<u32>,
    /// Requests that wait for the end of this turn before their answer is written.
    waiting: RefCell<Vec<Waker>>,
    /// Requests of this turn that wait for their lines.
    recording: RefCell<Option<AwaitedLines>>,
    /// Requests of earlier turns that wait for their lines, oldest turn first.
    recorded: RefCell<VecDeque<AwaitedLines>>,
    /// The task that ends turns.
    turn_task: RefCell<Option<Waker>>,
    admission: Admission,
}

/// Requests whose lines are passed to the journal in the same turn.
struct AwaitedLines {
    /// The ticket of the last line. Lines are written in order, so all others are written before it.
    last: Ticket,
    waiting: Vec<Waker>,
    /// When the last of them began to wait.
    since: Duration,
}

impl Turn {
    pub(crate) fn new(clock: Rc<WorkerClock>, patience: Duration) -> Self {
        Self {
            clock,
            patience,
            number: Cell::new(0),
            no_wait: Cell::new(0),
            waiting: RefCell::default(),
            recording: RefCell::default(),
            recorded: RefCell::default(),
            turn_task: RefCell::default(),
            admission: Admission::new(),
        }
    }

    pub(crate) fn clock(&self) -> &WorkerClock {
        &self.clock
    }

    /// Ends turns, forever. This is a task like those of the connections, so it runs after all tasks that were
    /// ready when it was woken. `flush` makes the journal write the lines appended so far.
    pub(crate) async fn run(&self, flush: impl Fn()) {
        loop {
            let asking = poll_fn(|cx| {
                self.turn_task.replace(Some(cx.waker().clone()));
                self.wake_recorded(cx);
                match self.asking() {
                    0 if !self.admission.has_waiting() => Poll::Pending,
                    asking => Poll::Ready(asking),
                }
            })
            .await;
            if self.admission.has_waiting() {
                // Lookups that waited and were admitted to this turn are done now. New requests are read meanwhile, so
                // that they are refused in time.
                after_io().await;
            } else if asking >= CROWD {
                self.wait_for_more(asking).await;
            }
            self.number.update(|number| number + 1);
            self.waiting.borrow_mut().drain(..).for_each(Waker::wake);
            if let Some(recording) = self.recording.take() {
                flush();
                self.recorded.borrow_mut().push_back(recording);
            }
            self.admission.end_turn();
        }
    }

    /// Waits once for more requests: they have probably arrived, and one flush costs the same for all of them. If none had
    /// arrived the last time, every client waits for its answer, and looking for more would cost a system call.
    async fn wait_for_more(&self, asking: usize) {
        if self.no_wait.get() > 0 {
            return self.no_wait.update(|turns| turns - 1);
        }
        tokio::task::yield_now().await;
        if self.asking() == asking {
            self.no_wait.set(TURNS_WITHOUT_WAIT);
        }
    }

    /// How many requests wait for the end of the turn.
    fn asking(&self) -> usize {
        self.waiting.borrow().len()
            + self.recording.borrow().as_ref().map_or(0, |recording| recording.waiting.len())
    }

    /// Wakes the requests whose lines are settled, or that have waited too long.
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

    /// Must be called at every tick of the clock, so that requests that waited too long are woken.
    pub(crate) fn tick(&self) {
        self.admission.tick();
        if !self.recorded.borrow().is_empty() {
            self.wake_turn_task();
        }
    }

    /// Refuses a lookup that would have to wait too long. Nothing has been done for it yet.
    pub(crate) fn check(&self, token: TokenKey) -> Result<(), Overloaded> {
        self.admission.check(token)
    }

    /// Waits until it is this token's turn. Returns how many of the lookups may be done in it, at least one, and whether it had to
    /// wait.
    pub(crate) async fn admit(
        &self,
        token: TokenKey,
        now: Instant,
        lookups: u32,
        has_begun: bool,
    ) -> Result<(u32, bool), Overloaded> {
        match self.admission.try_admit(token, now, lookups) {
            0 => {
                self.wake_turn_task();
                Ok((self.admission.wait(token, now, lookups, has_begun).await?, true))
            }
            admitted => Ok((admitted, false)),
        }
    }

    /// A lookup that had to wait took this long.
    pub(crate) fn took(&self, time: Duration) {
        self.admission.took(time);
    }

    /// Waits until all other requests that are ready have been processed.
    pub(crate) async fn end(&self) {
        let this = self.number.get();
        poll_fn(|cx| {
            if self.number.get() != this {
                return Poll::Ready(());
            }
            let mut waiting = self.waiting.borrow_mut();
            waiting.push(cx.waker().clone());
            // The first one has woken it already.
            if waiting.len() == 1 {
                self.wake_turn_task();
            }
            Poll::Pending
        })
        .await;
    }

    /// Waits until all other requests that are ready have been processed and the line is settled, but not longer
    /// than the patience.
    pub(crate) async fn recorded(&self, ticket: &Ticket) {
        if ticket.fate() != Fate::Waiting {
            return self.end().await;
        }
        let since = self.clock.elapsed();
        poll_fn(|cx| {
            if ticket.fate() != Fate::Waiting || self.is_over(since) {
                return Poll::Ready(());
            }
            // Register on every poll: an earlier registration may have been used up by a wake-up.
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
                    Some(AwaitedLines { last: ticket.clone(), waiting: vec![cx.waker().clone()], since });
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

/// Waits until the runtime has looked for I/O. [`tokio::task::yield_now`] ends earlier if the task is woken meanwhile.
pub(crate) async fn after_io() {
    struct Seen {
        is_set: AtomicBool,
        task: Waker,
    }
    impl Wake for Seen {
        fn wake(self: Arc<Self>) {
            self.is_set.store(true, Ordering::Release);
            self.task.wake_by_ref();
        }
    }
    let mut yielding = pin!(tokio::task::yield_now());
    let mut seen: Option<Arc<Seen>> = None;
    poll_fn(|cx| {
        let seen = seen.get_or_insert_with(|| {
            let seen = Arc::new(Seen { is_set: AtomicBool::new(false), task: cx.waker().clone() });
            let waker = Waker::from(Arc::clone(&seen));
            let _ = yielding.as_mut().poll(&mut Context::from_waker(&waker));
            seen
        });
        if seen.is_set.load(Ordering::Acquire) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
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
    fn requests_that_are_ready_together_are_answered_together_with_one_flush() {
        run(async {
            let worker = Worker::start();
            let batch = Batch::begin();
            for line in 0..3 {
                worker.record(batch.ticket(line));
            }
            assert_eq!(
                worker.settle().await,
                (1, 0),
                "flushed once, and no request is answered before its line is written"
            );
            batch.settle(true);
            assert_eq!(worker.settle().await, (1, 3));
        });
    }

    #[test]
    fn a_request_without_a_pending_line_does_not_wait_for_the_journal() {
        run(async {
            let worker = Worker::start();
            worker.turn.end().await;
            worker.record(Ticket::settled(true));
            assert_eq!(worker.settle().await, (0, 1), "a line that is settled needs no flush");
        });
    }

    #[test]
    fn requests_wait_for_their_lines_no_longer_than_patience() {
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
