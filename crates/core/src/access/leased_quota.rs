//! The quota of a family of tokens on a node of a cluster.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::leases::{Book, Leased};
use super::limit::{Period, first_day};
use super::meter::Meter;

/// For how many periods a node remembers what is leased to it: the newest.
const PERIODS: usize = 8;

/// What a node holds of a quota in one period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeldUnits {
    /// The quota.
    pub limit: u32,
    /// What it was given, used and unused.
    pub units: u64,
    /// What it has not used.
    pub unused: u64,
    /// What requests under way have reserved.
    pub reserved: u64,
    /// Requests that wait for units.
    pub waiting: u64,
    /// Whether the quota as a whole is used up.
    pub is_used_up: bool,
}

impl HeldUnits {
    /// What is used for good.
    pub fn used(&self) -> u64 {
        self.units.saturating_sub(self.unused).saturating_sub(self.reserved)
    }
}

/// What the database says when it was asked for units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeasedUnits {
    /// What this node is given now, used and unused.
    pub units: u64,
    /// How many of them are new.
    pub granted: u64,
    /// What is leased to nobody.
    pub free: u64,
    /// Whether everything is used, on all nodes.
    pub is_used_up: bool,
}

/// The quota of a family of tokens, whose units are leased. Tokens of a family share one.
#[derive(Clone, Debug)]
pub struct LeasedQuota {
    /// The family.
    pub family: String,
    /// The period.
    pub period: Period,
    pub(crate) meter: Arc<Meter>,
}

impl LeasedQuota {
    /// Whether it is counted in the same place: a quota that was removed and set again is not.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.meter, &other.meter)
    }

    /// What is held in the period that begins on this day.
    pub fn held(&self, first: i64) -> HeldUnits {
        let first = first_day(first);
        let Some(leased) = &self.meter.leased else { return HeldUnits::default() };
        let book = leased.book.lock();
        HeldUnits {
            limit: book.limit,
            units: book.units.get(&first).copied().unwrap_or(0),
            unused: u64::from(self.meter.unused(first)),
            reserved: self.meter.reserved(),
            waiting: u64::try_from(leased.waiting.lock().waiting.len()).unwrap_or(u64::MAX),
            is_used_up: leased.used_up.load(Ordering::Acquire) == first,
        }
    }

    /// Whether a lookup found no unit since this was asked last.
    pub fn take_need(&self) -> bool {
        self.meter.leased.as_ref().is_some_and(|leased| leased.is_needed.swap(false, Ordering::AcqRel))
    }

    /// Notes that this much is used or leased already, from a life before this process.
    pub fn start_at(&self, first: i64, units: u64) {
        let Some(leased) = &self.meter.leased else { return };
        let mut book = leased.book.lock();
        let held = book.units.entry(first_day(first)).or_insert(0);
        *held = (*held).max(units);
    }

    /// Gives up unused units, all but this many. The database has to be told.
    pub fn give_up(&self, first: i64, keep: u64) {
        if let Some(leased) = &self.meter.leased {
            self.meter.give_up(&mut leased.book.lock(), first_day(first), keep);
        }
    }

    /// Gives up all unused units of all periods.
    pub fn give_up_all(&self) {
        self.meter.give_up_all();
    }

    /// Applies an answer of the database to what was asked when this was held.
    pub fn answered(&self, first: i64, asked: HeldUnits, answer: LeasedUnits) {
        let first = first_day(first);
        let Some(leased) = &self.meter.leased else { return };
        let mut book = leased.book.lock();
        // What was granted of another quota is not used: the next question gives it back.
        if book.limit == asked.limit {
            *book.units.entry(first).or_insert(0) += answer.units.saturating_sub(asked.units);
            while book.units.len() > PERIODS {
                book.units.pop_first();
            }
            self.meter.grant(first, u32::try_from(answer.granted).unwrap_or(u32::MAX));
            let free = answer.free.min(u64::from(u32::MAX));
            leased.free.store(first << 32 | free, Ordering::Release);
            let is_used_up = answer.is_used_up && answer.granted == 0;
            leased.used_up.store(if is_used_up { first } else { 0 }, Ordering::Release);
        }
        drop(book);
        leased.wake();
    }

    /// There is no answer: nobody waits for it any longer.
    pub fn not_answered(&self) {
        self.meter.leased.iter().for_each(Leased::wake);
    }
}

impl Meter {
    fn give_up(&self, book: &mut Book, first: u64, keep: u64) {
        let given = u64::from(self.withdraw(first, u32::try_from(keep).unwrap_or(u32::MAX)));
        if let Some(units) = book.units.get_mut(&first) {
            *units = units.saturating_sub(given);
        }
    }

    fn give_up_all(&self) {
        if let Some(leased) = &self.leased {
            let mut book = leased.book.lock();
            let periods: Vec<u64> = book.units.keys().copied().collect();
            periods.into_iter().for_each(|first| self.give_up(&mut book, first, 0));
        }
    }

    /// The quota may have changed. Units of a higher one are given up, so that the new one is in force when this returns.
    pub(crate) fn set_limit(&self, limit: u32) {
        let Some(leased) = &self.leased else { return };
        let before = std::mem::replace(&mut leased.book.lock().limit, limit);
        if before == limit {
            return;
        }
        let free = leased.free.load(Ordering::Acquire);
        let (first, free) = (free >> 32, free & u64::from(u32::MAX));
        let free = (free + u64::from(limit)).saturating_sub(u64::from(before)).min(u64::from(u32::MAX));
        leased.free.store(first << 32 | free, Ordering::Release);
        leased.used_up.store(0, Ordering::Release);
        if limit < before {
            self.give_up_all();
            leased.is_needed.store(true, Ordering::Release);
            leased.leases.poke();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Poll, Waker};

    use super::*;
    use crate::{LimitExceeded, Quota, QuotaLeases, Timestamp};

    const NOON: &str = "2026-05-01T12:00:00Z";

    fn noon() -> Timestamp {
        Timestamp::parse(NOON).expect("a time")
    }

    fn leased(quota: Quota, used: u64) -> (LeasedQuota, i64, Arc<QuotaLeases>) {
        let leases = Arc::<QuotaLeases>::default();
        let meter = Arc::new(Meter::leased(quota, used, noon(), Arc::clone(&leases)));
        let first = quota.period.days(noon()).0;
        (LeasedQuota { family: "f".to_owned(), period: quota.period, meter }, first, leases)
    }

    fn quota(text: &str) -> Quota {
        text.parse().expect("a quota")
    }

    fn answer(units: u64, granted: u64, free: u64) -> LeasedUnits {
        LeasedUnits { units, granted, free, is_used_up: free == 0 }
    }

    #[test]
    fn only_what_is_leased_can_be_used_and_more_is_asked_for() {
        let quota = quota("10/day");
        let (held, first, leases) = leased(quota, 4);
        let use_one = || {
            let reserved = held.meter.reserve(quota, noon());
            reserved.inspect(|()| held.meter.keep())
        };
        assert_eq!(use_one(), Err(LimitExceeded::Unleased));
        assert!(leases.poke.lock().is_poked && held.take_need() && !held.take_need());
        assert_eq!(held.meter.allowance(quota, noon()).remaining, 6, "as far as it knows");
        held.answered(first, held.held(first), answer(6, 2, 3));
        assert_eq!(held.meter.allowance(quota, noon()).remaining, 5, "another node has one");
        assert_eq!((use_one(), use_one()), (Ok(()), Ok(())));
        assert_eq!(use_one(), Err(LimitExceeded::Unleased));
        let now = held.held(first);
        assert_eq!((now.units, now.unused, now.used()), (6, 0, 6));
        held.answered(first, now, answer(6, 0, 0));
        assert_eq!(use_one(), Err(LimitExceeded::Quota { retry_after: 43_200 }));
        assert_eq!(held.meter.check(quota, noon()), Err(LimitExceeded::Quota { retry_after: 43_200 }));
        held.answered(first, held.held(first), answer(7, 1, 0));
        assert_eq!(use_one(), Ok(()), "another node gave one back");
        assert_eq!(use_one(), Err(LimitExceeded::Unleased));
    }

    #[test]
    fn what_is_given_up_cannot_be_used_and_what_is_reserved_stays() {
        let quota = quota("10/day");
        let (held, first, _) = leased(quota, 0);
        held.answered(first, held.held(first), answer(5, 5, 5));
        held.meter.reserve(quota, noon()).expect("leased");
        held.meter.reserve(quota, noon()).expect("leased");
        held.give_up(first, 1);
        let now = held.held(first);
        assert_eq!((now.units, now.unused, now.reserved, now.used()), (3, 1, 2, 0));
        held.meter.give_back(quota, noon());
        assert_eq!(held.held(first).unused, 2);
        held.give_up_all();
        let now = held.held(first);
        assert_eq!((now.units, now.unused, now.reserved, now.used()), (1, 0, 1, 0));
        held.meter.keep();
        assert_eq!(held.held(first).used(), 1);
    }

    #[test]
    fn a_lower_quota_is_in_force_at_once_also_for_an_answer_under_way() {
        let quota = quota("100/day");
        let (held, first, _) = leased(quota, 0);
        held.answered(first, held.held(first), answer(20, 20, 80));
        let asked = held.held(first);
        held.meter.set_limit(10);
        assert_eq!(held.held(first).units, 0, "nothing was used");
        held.answered(first, asked, answer(60, 40, 40));
        let now = held.held(first);
        assert_eq!((now.units, now.unused, now.limit), (0, 0, 10), "that was of the other quota");
        assert_eq!(held.meter.reserve(quota, noon()), Err(LimitExceeded::Unleased));
    }

    #[test]
    fn a_new_day_begins_without_units_and_one_may_be_leased_ahead() {
        let quota = quota("10/day");
        let (held, first, _) = leased(quota, 3);
        held.answered(first, held.held(first), answer(5, 2, 5));
        let tomorrow = Timestamp::parse("2026-05-02").expect("a time");
        assert_eq!(held.meter.reserve(quota, tomorrow), Err(LimitExceeded::Unleased));
        held.answered(first + 1, held.held(first + 1), answer(1, 1, 9));
        assert_eq!(held.meter.reserve(quota, tomorrow), Ok(()));
        assert_eq!(held.meter.reserve(quota, tomorrow), Err(LimitExceeded::Unleased));
        let (today, next) = (held.held(first), held.held(first + 1));
        assert_eq!((today.units, today.unused, next.units, next.unused), (5, 2, 1, 0));
        held.answered(first + 2, held.held(first + 2), answer(4, 4, 6));
        let after = Timestamp::parse("2026-05-03").expect("a time");
        assert_eq!(held.meter.allowance(quota, after).remaining, 10);
        assert_eq!(held.meter.reserve(quota, after), Ok(()));
    }

    #[test]
    fn threads_use_exactly_what_is_leased_while_some_is_given_up() {
        let quota = quota("100000/day");
        let (held, first, _) = leased(quota, 0);
        let use_all = || (0..20_000).filter(|_| held.meter.reserve(quota, noon()).is_ok()).count() as u64;
        let used: u64 = std::thread::scope(|scope| {
            let threads = [(); 3].map(|()| scope.spawn(use_all));
            for _ in 0..500 {
                let now = held.held(first);
                held.answered(first, now, answer(now.units + 20, 20, 9));
                held.give_up(first, 7);
            }
            threads.into_iter().map(|thread| thread.join().expect("ends")).sum()
        });
        let now = held.held(first);
        assert_eq!(now.units, used + now.unused);
    }

    #[test]
    fn who_waits_is_woken_by_an_answer_and_nobody_waits_while_the_database_is_away() {
        let (held, first, leases) = leased(quota("10/day"), 0);
        let meter = Arc::clone(&held.meter);
        let mut waiting = Box::pin(async move { meter.leased.as_ref().expect("leased").answer().await });
        let mut cx = std::task::Context::from_waker(Waker::noop());
        assert_eq!(waiting.as_mut().poll(&mut cx), Poll::Pending);
        assert_eq!(held.held(first).waiting, 1);
        held.answered(first, held.held(first), answer(1, 1, 9));
        assert_eq!(waiting.as_mut().poll(&mut cx), Poll::Ready(true));
        leases.set_away(true);
        let leased = held.meter.leased.as_ref().expect("leased");
        assert_eq!(std::pin::pin!(leased.answer()).poll(&mut cx), Poll::Ready(false));
    }
}
