//! Which lookups a worker does in this turn, which wait for a later turn, and which are refused.
//!
//! A worker does one thing at a time. A turn takes about [`WORK`]; lookups that come later in it wait for another turn.
//! They wait by token, first come first served, and the tokens take turns: a token that sends more does not make
//! others wait longer. A lookup that would have to wait too long is refused at once, before any work.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::hash::{BuildHasherDefault, Hasher};
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use contactd_core::TokenKey;

/// How long a turn works before the lookups that follow wait for the next one.
const WORK: Duration = Duration::from_millis(1);

/// How long a lookup may wait. If it would be longer, it is refused.
const MAX_WAIT: Duration = Duration::from_millis(10);

/// What a lookup costs besides the lookup itself, about: its request is read, its line recorded, its answer written.
const BESIDE: Duration = Duration::from_micros(20);

/// Refusing costs about as much as a fast lookup. So if a lookup takes less than this, more of them may wait, up to
/// this many times [`MAX_WAIT`].
const FAST: (Duration, u128) = (Duration::from_micros(400), 20);

/// How long, and for how many lookups at most, a turn works for one token while other tokens are in use.
const SHARE: (Duration, u32) = (Duration::from_micros(100), 8);

/// A lookup may always wait for so many others. When the machine is busy with other things, a few lookups take long
/// without being too many.
const ALWAYS_ADMITTED: u32 = 12;

/// How many ticks of the worker's clock a token counts as in use.
const LATELY: u64 = 20;

/// How many waiting lookups a turn takes at most.
const MOST_PER_TURN: u32 = 256;

/// The lookup would wait too long: the worker gets more than it can do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Overloaded;

/// Decides which lookups a worker does now.
pub(crate) struct Admission {
    /// When the first lookup of this turn was admitted.
    began: Cell<Option<Instant>>,
    /// How many were admitted in this turn.
    admitted: Cell<u32>,
    turn: Cell<u64>,
    /// How long the lookups of this turn took that had waited for it, and how many they are.
    measured: Cell<(Duration, u32)>,
    /// How long a lookup takes, smoothed.
    pace: Cell<Duration>,
    tick: Cell<u64>,
    /// The last token, and the tick in which it was noted in `tokens`.
    last: Cell<Option<(TokenKey, u64)>>,
    /// More than one token is in use up to this tick.
    several_until: Cell<u64>,
    /// The tokens of this tick.
    tokens: RefCell<HashMap<TokenKey, OfTurn, BuildHasherDefault<Spread>>>,
    waiting: RefCell<VecDeque<OfToken>>,
}

/// A hasher for the keys of tokens, which nobody outside chooses.
#[derive(Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_usize(byte.into()));
    }

    fn write_usize(&mut self, key: usize) {
        // 2^64 divided by the golden ratio. The upper half of the product depends on every bit of the key, and the table uses
        // the lowest bits first.
        self.0 = (self.0 ^ key as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(32);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// How many lookups of a token were admitted in a turn.
#[derive(Clone, Copy, Debug, Default)]
struct OfTurn {
    turn: u64,
    admitted: u32,
}

/// The requests of a token whose lookups wait, oldest first.
struct OfToken {
    token: TokenKey,
    requests: VecDeque<Rc<Waiter>>,
    /// How many lookups they want to do.
    lookups: u32,
}

/// A request that waits with one lookup, or with those of a batch.
struct Waiter {
    since: Instant,
    lookups: u32,
    /// How many of them may be done now.
    admitted: Cell<u32>,
    state: Cell<State>,
    waker: RefCell<Option<Waker>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting,
    Admitted,
    /// The client is gone.
    Abandoned,
}

impl Admission {
    pub(crate) fn new() -> Self {
        Self {
            began: Cell::new(None),
            admitted: Cell::new(0),
            turn: Cell::new(1),
            measured: Cell::default(),
            pace: Cell::new(Duration::from_micros(10)),
            tick: Cell::new(1),
            last: Cell::new(None),
            several_until: Cell::new(0),
            tokens: RefCell::default(),
            waiting: RefCell::default(),
        }
    }

    /// Refuses a lookup that would have to wait too long. Nothing has been done for it yet.
    pub(crate) fn check(&self, token: TokenKey) -> Result<(), Overloaded> {
        if self.waiting.borrow().is_empty() {
            return Ok(());
        }
        let others = self.before(token);
        let expected = self.pace.get().saturating_mul(others + 1);
        if others < ALWAYS_ADMITTED || expected <= self.max_wait() { Ok(()) } else { Err(Overloaded) }
    }

    /// Admits lookups to this turn if nobody waits, the turn has time left and the token has not had its share. Returns how many.
    pub(crate) fn try_admit(&self, token: TokenKey, now: Instant, lookups: u32) -> u32 {
        let began = self.began.get();
        let has_time = began.is_none_or(|began| now.saturating_duration_since(began) < WORK);
        if !has_time || !self.waiting.borrow().is_empty() {
            return 0;
        }
        let taken = self.take_share(token, lookups);
        if taken > 0 && began.is_none() {
            self.began.set(Some(now));
        }
        self.admitted.update(|admitted| admitted + taken);
        taken
    }

    /// Waits for a later turn. Returns how many of the lookups may be done then. What is left of a batch that has begun comes before
    /// everything else of its token: otherwise many batches would be half done. Whoever calls this must also have the turn end.
    pub(crate) async fn wait(
        &self,
        token: TokenKey,
        now: Instant,
        lookups: u32,
        has_begun: bool,
    ) -> Result<u32, Overloaded> {
        if !has_begun {
            self.check(token)?;
        }
        let waiter = Rc::new(Waiter {
            since: now,
            lookups,
            admitted: Cell::new(0),
            state: Cell::new(State::Waiting),
            waker: RefCell::default(),
        });
        self.push(token, Rc::clone(&waiter), has_begun);
        let _abandon = AbandonAtEnd(&waiter);
        poll_fn(|cx| {
            if waiter.state.get() == State::Admitted {
                return Poll::Ready(());
            }
            waiter.waker.replace(Some(cx.waker().clone()));
            Poll::Pending
        })
        .await;
        // The work took much longer than expected: an answer would come too late.
        if waiter.since.elapsed() > 10 * self.max_wait() {
            Err(Overloaded)
        } else {
            Ok(waiter.admitted.get())
        }
    }

    /// A lookup that had waited took this long.
    pub(crate) fn took(&self, time: Duration) {
        let (total, count) = self.measured.get();
        self.measured.set((total + time, count + 1));
    }

    /// Whether lookups wait for a later turn.
    pub(crate) fn has_waiting(&self) -> bool {
        !self.waiting.borrow().is_empty()
    }

    /// The turn has ended: the next one begins with lookups that wait.
    pub(crate) fn end_turn(&self) {
        self.turn.update(|turn| turn + 1);
        let admitted = self.admitted.replace(0);
        let measured = self.measured.take();
        let Some(began) = self.began.take() else { return };
        let now = Instant::now();
        // While lookups wait, others are refused in the same turn. That time is not part of the pace: it would be the higher, the
        // more are refused, and the worker would never find out that it could do more again.
        self.learn_pace(match measured {
            (_, 0) => now.saturating_duration_since(began) / admitted.max(1),
            (total, count) => total / count + BESIDE,
        });
        let woken = (0..self.most_waiting()).take_while(|_| self.admit_next()).count();
        self.wake_partly_admitted();
        if woken > 0 || self.has_waiting() {
            self.began.set(Some(now));
            self.admitted.set(u32::try_from(woken).unwrap_or(MOST_PER_TURN));
        }
    }

    /// Must be called at every tick of the worker's clock.
    pub(crate) fn tick(&self) {
        self.tick.update(|tick| tick + 1);
        self.tokens.borrow_mut().clear();
    }

    /// Counts lookups of this token in this turn, as many as are left of its share. While only one token is in use, its share is
    /// as many as a turn has time for.
    fn take_share(&self, token: TokenKey, lookups: u32) -> u32 {
        let tick = self.tick.get();
        let are_several = self.are_several_in_use();
        let wanted = if lookups == 1 { 1 } else { lookups.min(self.in_time(WORK, MOST_PER_TURN)) };
        if !are_several && self.last.get() == Some((token, tick)) {
            return wanted;
        }
        let mut tokens = self.tokens.borrow_mut();
        let of_turn = tokens.entry(token).or_default();
        if of_turn.turn != self.turn.get() {
            *of_turn = OfTurn { turn: self.turn.get(), admitted: 0 };
        }
        let left = if are_several { self.share().saturating_sub(of_turn.admitted) } else { wanted };
        let taken = wanted.min(left);
        if taken == 0 {
            return 0;
        }
        of_turn.admitted += taken;
        let changed = self.last.get().is_some_and(|(last, at)| last != token && at + LATELY >= tick);
        if changed || tokens.len() > 1 {
            self.several_until.set(tick + LATELY);
        }
        self.last.set(Some((token, tick)));
        taken
    }

    fn are_several_in_use(&self) -> bool {
        self.several_until.get() >= self.tick.get()
    }

    fn share(&self) -> u32 {
        let (time, most) = SHARE;
        self.in_time(time, most)
    }

    /// How many waiting lookups a turn takes. While several tokens are in use it is a short one, so that nobody waits
    /// long for its end.
    fn most_waiting(&self) -> u32 {
        let tokens = u32::try_from(self.waiting.borrow().len()).unwrap_or(MOST_PER_TURN);
        let shares =
            if self.are_several_in_use() { self.share().saturating_mul(tokens) } else { MOST_PER_TURN };
        self.in_time(WORK, MOST_PER_TURN).min(shares.max(1))
    }

    /// How many lookups can be done in this time: at least one.
    fn in_time(&self, time: Duration, most: u32) -> u32 {
        let count = time.as_nanos() / self.pace.get().as_nanos().max(1);
        u32::try_from(count).unwrap_or(most).clamp(1, most)
    }

    fn max_wait(&self) -> Duration {
        let (time, most) = FAST;
        let times = (time.as_nanos() / self.pace.get().as_nanos().max(1)).clamp(1, most);
        MAX_WAIT * u32::try_from(times).unwrap_or(1)
    }

    /// How many lookups would be done before another one of this token, with the tokens taking turns.
    fn before(&self, token: TokenKey) -> u32 {
        let waiting = self.waiting.borrow();
        let own = waiting.iter().find(|of_token| of_token.token == token);
        let before = own.map_or(0, |of_token| of_token.lookups);
        let tokens =
            u32::try_from(waiting.len()).unwrap_or(u32::MAX).saturating_add(u32::from(own.is_none()));
        before.saturating_add(1).saturating_mul(tokens) - 1
    }

    fn push(&self, token: TokenKey, waiter: Rc<Waiter>, is_first: bool) {
        let mut waiting = self.waiting.borrow_mut();
        match waiting.iter_mut().find(|of_token| of_token.token == token) {
            Some(of_token) => of_token.push(waiter, is_first),
            None => {
                let lookups = waiter.lookups;
                waiting.push_back(OfToken { token, requests: VecDeque::from([waiter]), lookups });
            }
        }
        // Without an admitted lookup, a turn would not know when it began.
        if self.began.get().is_none() {
            self.began.set(Some(Instant::now()));
        }
    }

    /// Admits the oldest lookup of the token whose turn it is; false if none waits.
    fn admit_next(&self) -> bool {
        let mut waiting = self.waiting.borrow_mut();
        while let Some(mut of_token) = waiting.pop_front() {
            let is_admitted = of_token.admit_next();
            if !of_token.requests.is_empty() {
                waiting.push_back(of_token);
            }
            if is_admitted {
                return true;
            }
        }
        false
    }

    /// Wakes the requests of which some lookups were admitted in this turn and others were not.
    fn wake_partly_admitted(&self) {
        self.waiting.borrow_mut().retain_mut(|of_token| {
            if of_token.requests.front().is_some_and(|waiter| waiter.admitted.get() > 0) {
                of_token.wake_first();
            }
            !of_token.requests.is_empty()
        });
    }

    /// One turn says little: this thread may not have had a core for a while. So the pace follows slowly.
    fn learn_pace(&self, sample: Duration) {
        let pace = self.pace.get();
        let sample = sample.min(2 * pace + Duration::from_micros(20));
        self.pace.set((7 * pace + sample) / 8);
    }
}

impl OfToken {
    fn push(&mut self, waiter: Rc<Waiter>, is_first: bool) {
        self.lookups = self.lookups.saturating_add(waiter.lookups);
        match is_first {
            true => self.requests.push_front(waiter),
            false => self.requests.push_back(waiter),
        }
    }

    /// Admits the oldest lookup whose client is still there; false if there is none.
    fn admit_next(&mut self) -> bool {
        while self.requests.front().is_some_and(|waiter| waiter.state.get() == State::Abandoned) {
            self.pop();
        }
        let Some(waiter) = self.requests.front() else { return false };
        waiter.admitted.update(|admitted| admitted + 1);
        if waiter.admitted.get() == waiter.lookups {
            self.wake_first();
        }
        true
    }

    fn pop(&mut self) -> Option<Rc<Waiter>> {
        let waiter = self.requests.pop_front()?;
        self.lookups = self.lookups.saturating_sub(waiter.lookups);
        Some(waiter)
    }

    /// The oldest request goes on with what was admitted of it.
    fn wake_first(&mut self) {
        if let Some(waiter) = self.pop() {
            waiter.state.set(State::Admitted);
            if let Some(waker) = waiter.waker.take() {
                waker.wake();
            }
        }
    }
}

/// Marks a lookup as abandoned if it is dropped while it waits.
struct AbandonAtEnd<'a>(&'a Waiter);

impl Drop for AbandonAtEnd<'_> {
    fn drop(&mut self) {
        if self.0.state.get() == State::Waiting {
            self.0.state.set(State::Abandoned);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{callers, run};
    use tokio::task::{JoinHandle, spawn_local};

    /// A turn of a worker on which every lookup takes this long.
    struct Worker {
        admission: Rc<Admission>,
        took: Duration,
    }

    impl Worker {
        fn new(took: Duration) -> Self {
            let admission = Rc::new(Admission::new());
            admission.pace.set(took);
            Self { admission, took }
        }

        fn wait(&self, token: TokenKey) -> JoinHandle<Result<u32, Overloaded>> {
            let admission = Rc::clone(&self.admission);
            spawn_local(async move { admission.wait(token, Instant::now(), 1, false).await })
        }

        /// Ends the turn, and lets the lookups that it admits go on.
        async fn end_turn(&self) {
            self.admission.end_turn();
            self.admission.pace.set(self.took);
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
        }
    }

    async fn settle() {
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
    }

    fn finished(lookups: &[JoinHandle<Result<u32, Overloaded>>]) -> usize {
        lookups.iter().filter(|lookup| lookup.is_finished()).count()
    }

    #[test]
    fn a_turn_ends_after_a_millisecond_and_what_comes_later_waits_in_order() {
        run(async {
            let (worker, token) = (Worker::new(Duration::from_millis(1)), callers(1)[0].key());
            let now = Instant::now();
            assert_eq!(worker.admission.try_admit(token, now, 1), 1);
            assert_eq!(worker.admission.try_admit(token, now + WORK / 2, 1), 1);
            assert_eq!(worker.admission.try_admit(token, now + WORK, 1), 0);
            let waiting = [worker.wait(token), worker.wait(token)];
            settle().await;
            assert_eq!(worker.admission.try_admit(token, now, 1), 0, "nobody overtakes");
            worker.end_turn().await;
            assert_eq!((waiting[0].is_finished(), waiting[1].is_finished()), (true, false));
            worker.end_turn().await;
            assert_eq!(finished(&waiting), 2);
            assert!(!worker.admission.has_waiting());
        });
    }

    #[test]
    fn the_newest_is_refused_if_it_would_wait_too_long_and_another_token_is_not() {
        run(async {
            let (worker, callers) = (Worker::new(Duration::from_millis(1)), callers(2));
            let (busy, calm) = (callers[0].key(), callers[1].key());
            let waiting: Vec<_> = (0..12).map(|_| worker.wait(busy)).collect();
            settle().await;
            assert_eq!(worker.admission.check(busy), Err(Overloaded));
            assert_eq!(worker.wait(busy).await.expect("ends"), Err(Overloaded));
            assert_eq!(worker.admission.check(calm), Ok(()));
            let other = worker.wait(calm);
            settle().await;
            worker.end_turn().await;
            worker.end_turn().await;
            assert!(other.is_finished(), "tokens take turns");
            assert_eq!(finished(&waiting), 1);
        });
    }

    #[test]
    fn a_token_has_a_share_of_a_turn_while_another_one_is_in_use_and_all_of_it_otherwise() {
        run(async {
            let (worker, callers) = (Worker::new(Duration::from_micros(10)), callers(2));
            let (busy, calm) = (callers[0].key(), callers[1].key());
            let now = Instant::now();
            let admitted =
                |token| (0..100).take_while(|_| worker.admission.try_admit(token, now, 1) == 1).count();
            assert_eq!(admitted(busy), 100);
            worker.end_turn().await;
            assert_eq!(admitted(calm), 8, "the other one was in use lately");
            assert_eq!(admitted(busy), 8);
            worker.end_turn().await;
            assert_eq!(admitted(busy), 8);
            for _ in 0..=LATELY {
                worker.admission.tick();
            }
            worker.end_turn().await;
            assert_eq!(admitted(busy), 100, "it is alone again");
        });
    }

    #[test]
    fn a_batch_counts_as_its_lookups() {
        run(async {
            let (worker, callers) = (Worker::new(Duration::from_micros(10)), callers(2));
            let (batches, singles) = (callers[0].key(), callers[1].key());
            let now = Instant::now();
            assert_eq!(worker.admission.try_admit(batches, now, 500), 100, "what fits into a turn");
            worker.end_turn().await;
            assert_eq!(worker.admission.try_admit(singles, now, 1), 1);
            assert_eq!(
                worker.admission.try_admit(batches, now, 100),
                8,
                "its share, now that it is not alone"
            );
            assert_eq!(worker.admission.try_admit(batches, now, 92), 0);
            let other = worker.wait(batches);
            settle().await;
            let admission = Rc::clone(&worker.admission);
            let batch = spawn_local(async move { admission.wait(batches, Instant::now(), 92, true).await });
            let waiting: Vec<_> = (0..20).map(|_| worker.wait(singles)).collect();
            settle().await;
            assert_eq!(worker.admission.before(batches), 2 * (92 + 1 + 1) - 1);
            // What is measured decides how many are admitted, however long this thread has no core.
            worker.admission.took(Duration::ZERO);
            worker.end_turn().await;
            assert_eq!(finished(&waiting), 8, "the tokens take turns, lookup by lookup");
            assert_eq!(batch.await.expect("ends"), Ok(8));
            assert!(!other.is_finished(), "what has begun is done first");
            worker.end_turn().await;
            worker.end_turn().await;
            assert_eq!((finished(&waiting), worker.admission.has_waiting()), (20, false));
        });
    }

    #[test]
    fn a_lookup_whose_client_is_gone_takes_no_place_in_a_turn() {
        run(async {
            let (worker, token) = (Worker::new(Duration::from_millis(1)), callers(1)[0].key());
            let waiting = [worker.wait(token), worker.wait(token)];
            settle().await;
            waiting[0].abort();
            settle().await;
            worker.end_turn().await;
            assert!(waiting[1].is_finished());
        });
    }

    #[test]
    fn the_time_it_takes_to_refuse_others_is_not_part_of_the_pace() {
        run(async {
            let (worker, token) = (Worker::new(Duration::from_micros(800)), callers(1)[0].key());
            let waiting: Vec<_> = (0..4).map(|_| worker.wait(token)).collect();
            settle().await;
            worker.end_turn().await;
            worker.admission.took(Duration::from_micros(5));
            std::thread::sleep(Duration::from_millis(5));
            worker.admission.end_turn();
            assert!(
                worker.admission.pace.get() < Duration::from_micros(800),
                "{:?}",
                worker.admission.pace.get()
            );
            waiting.iter().for_each(JoinHandle::abort);
        });
    }

    #[test]
    fn one_long_turn_changes_the_pace_little_and_many_change_it() {
        let admission = Admission::new();
        let pace = admission.pace.get();
        admission.learn_pace(Duration::from_millis(50));
        assert!(admission.pace.get() < 2 * pace);
        for _ in 0..60 {
            admission.learn_pace(Duration::from_millis(1));
        }
        assert!(admission.pace.get() > Duration::from_micros(900), "{:?}", admission.pace.get());
    }
}
