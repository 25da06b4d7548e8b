//! The hits that a quota leaves to a family of tokens.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::leases::{Leased, QuotaLeases};
use super::limit::{Allowance, LimitExceeded, Quota, first_day, seconds_until};
use crate::Timestamp;

/// Hits in the current period, and in others if the clock went back or forward.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    /// The upper bits hold the first day of the period, the lower bits the count.
    packed: AtomicU64,
    /// How many of them are only reserved, by requests under way.
    reserved: AtomicU64,
    /// What was counted in other periods, by their first day. A day that begins again goes on with its count.
    others: Mutex<BTreeMap<u64, u32>>,
    /// In a cluster. The count of such a meter is [`FULL`] less the units that are leased and not used.
    pub(crate) leased: Option<Leased>,
}

/// The count when nothing is left of what is leased, or it is not known yet what was used.
const FULL: u32 = u32::MAX;

/// How many other periods a meter remembers: the newest.
const OTHER_PERIODS: usize = 8;

impl Meter {
    const COUNT_BITS: u32 = 32;

    /// Starts with the hits already counted in the period that contains `now`.
    pub(crate) fn starting_at(quota: Quota, used: u64, now: Timestamp) -> Self {
        let used = u32::try_from(used).unwrap_or(u32::MAX);
        Self {
            packed: AtomicU64::new(Self::pack(first_day(quota.period.days(now).0), used)),
            ..Self::default()
        }
    }

    /// If it was not known what was used: these are the hits already counted in the period that contains `now`.
    pub(crate) fn go_on(&self, quota: Quota, used: u64, now: Timestamp) {
        let first = first_day(quota.period.days(now).0);
        if self.leased.is_none() && self.used(first) == FULL {
            self.change(first, |_| u32::try_from(used).unwrap_or(FULL));
        }
    }

    /// Starts without a unit, and with the hits already counted in the period that contains `now`.
    pub(crate) fn leased(quota: Quota, used: u64, now: Timestamp, leases: Arc<QuotaLeases>) -> Self {
        let first = first_day(quota.period.days(leases.time(now)).0);
        Self {
            packed: AtomicU64::new(Self::pack(first, FULL)),
            leased: Some(Leased::new(leases, quota.limit, first, used)),
            ..Self::default()
        }
    }

    /// The time that decides which period it is.
    fn time(&self, now: Timestamp) -> Timestamp {
        self.leased.as_ref().map_or(now, |leased| leased.leases.time(now))
    }

    /// The count with which a period begins.
    const fn empty(&self) -> u32 {
        if self.leased.is_some() { FULL } else { 0 }
    }

    /// The count at which nothing is left.
    const fn most(&self, quota: Quota) -> u32 {
        if self.leased.is_some() { FULL } else { quota.limit }
    }

    const fn pack(first: u64, used: u32) -> u64 {
        (first << Self::COUNT_BITS) | used as u64
    }

    /// The first day of the period, and the count.
    fn unpack(packed: u64) -> (u64, u32) {
        let used = u32::try_from(packed & u64::from(u32::MAX)).unwrap_or(u32::MAX);
        (packed >> Self::COUNT_BITS, used)
    }

    /// The hits in a period, which need not be the current one.
    fn used(&self, first: u64) -> u32 {
        match Self::unpack(self.packed.load(Ordering::Acquire)) {
            (current, used) if current == first => used,
            _ => {
                let others = self.others.lock();
                // Another thread may have made it the current one meanwhile.
                match Self::unpack(self.packed.load(Ordering::Acquire)) {
                    (current, used) if current == first => used,
                    _ => others.get(&first).copied().unwrap_or(self.empty()),
                }
            }
        }
    }

    /// Makes a period the current one, with what was counted in it.
    fn enter(&self, first: u64) {
        if Self::unpack(self.packed.load(Ordering::Acquire)).0 == first {
            return;
        }
        let mut others = self.others.lock();
        let again = others.get(&first).copied().unwrap_or(self.empty());
        let entered = self.packed.fetch_update(Ordering::AcqRel, Ordering::Acquire, |packed| {
            (Self::unpack(packed).0 != first).then(|| Self::pack(first, again))
        });
        let Ok(left) = entered else { return };
        others.remove(&first);
        let (left, used) = Self::unpack(left);
        others.insert(left, used);
        while others.len() > OTHER_PERIODS {
            others.pop_first();
        }
    }

    /// Checks whether another hit is allowed.
    pub(crate) fn check(&self, quota: Quota, now: Timestamp) -> Result<(), LimitExceeded> {
        let now = self.time(now);
        let (first, next) = quota.period.days(now);
        if self.used(first_day(first)) < self.most(quota) {
            return Ok(());
        }
        Err(self.exceeded(quota, first, next, now))
    }

    /// What is reserved may be given back in a moment.
    fn exceeded(&self, quota: Quota, first: i64, next: i64, now: Timestamp) -> LimitExceeded {
        let reserved = self.reserved.load(Ordering::Acquire);
        if let Some(leased) = &self.leased {
            let retry_after = if reserved == 0 { seconds_until(next, now) } else { 1 };
            return leased.exceeded(first_day(first), retry_after);
        }
        let used = self.used(first_day(first));
        if used == FULL {
            return LimitExceeded::Unleased;
        }
        let is_used_up = u64::from(used).saturating_sub(reserved) >= u64::from(quota.limit);
        LimitExceeded::Quota { retry_after: if is_used_up { seconds_until(next, now) } else { 1 } }
    }

    /// Reserves a hit, unless the quota is used up. The count never exceeds the quota. Every hit that is reserved
    /// is [kept](Self::keep) or [given back](Self::give_back).
    pub(crate) fn reserve(&self, quota: Quota, now: Timestamp) -> Result<(), LimitExceeded> {
        let now = self.time(now);
        let (first, next) = quota.period.days(now);
        let most = self.most(quota);
        self.reserved.fetch_add(1, Ordering::AcqRel);
        loop {
            self.enter(first_day(first));
            let mut is_left = false;
            let reserved = self.packed.fetch_update(Ordering::AcqRel, Ordering::Acquire, |packed| {
                let (current, used) = Self::unpack(packed);
                is_left = current != first_day(first);
                (!is_left && used < most).then(|| packed + 1)
            });
            match reserved {
                Ok(_) => return Ok(()),
                // Another thread, whose clock is in another period, was faster.
                Err(_) if is_left => {}
                Err(_) => {
                    self.keep();
                    return Err(self.exceeded(quota, first, next, now));
                }
            }
        }
    }

    /// A reserved hit was disclosed.
    pub(crate) fn keep(&self) {
        self.reserved.fetch_sub(1, Ordering::AcqRel);
    }

    /// Takes back a hit that was reserved at `reserved_at`, in the period in which it was counted.
    pub(crate) fn give_back(&self, quota: Quota, reserved_at: Timestamp) {
        let first = first_day(quota.period.days(self.time(reserved_at)).0);
        self.keep();
        let give_back = || {
            self.packed.fetch_update(Ordering::AcqRel, Ordering::Acquire, |packed| {
                let (current, used) = Self::unpack(packed);
                (current == first && used > 0).then(|| packed - 1)
            })
        };
        if give_back().is_ok() {
            return;
        }
        // With the lock, no other period becomes the current one.
        let mut others = self.others.lock();
        if let (Err(_), Some(used)) = (give_back(), others.get_mut(&first)) {
            *used = used.saturating_sub(1);
        }
    }

    /// How many units of a period are leased and not used.
    pub(crate) fn unused(&self, first: u64) -> u32 {
        FULL - self.used(first)
    }

    /// How many are reserved, by requests under way.
    pub(crate) fn reserved(&self) -> u64 {
        self.reserved.load(Ordering::Acquire)
    }

    /// Adds units to a period, which need not be the current one.
    pub(crate) fn grant(&self, first: u64, units: u32) {
        self.change(first, |used| used.saturating_sub(units));
    }

    /// Takes back the unused units of a period, all but this many. Returns how many.
    pub(crate) fn withdraw(&self, first: u64, keep: u32) -> u32 {
        let kept = FULL - keep;
        let before = self.change(first, |used| used.max(kept));
        kept.saturating_sub(before)
    }

    /// Changes the count of a period. Returns what it was.
    fn change(&self, first: u64, count: impl Fn(u32) -> u32) -> u32 {
        let mut others = self.others.lock();
        // With the lock, no other period becomes the current one.
        let changed = self.packed.fetch_update(Ordering::AcqRel, Ordering::Acquire, |packed| {
            let (current, used) = Self::unpack(packed);
            (current == first).then(|| Self::pack(first, count(used)))
        });
        if let Ok(before) = changed {
            return Self::unpack(before).1;
        }
        let held = others.entry(first).or_insert(self.empty());
        let before = *held;
        *held = count(before);
        before
    }

    /// What is left of the quota. In a cluster: as far as this node knows.
    fn remaining(&self, quota: Quota, first: u64) -> u64 {
        match &self.leased {
            Some(leased) => {
                let left = leased.free(first) + u64::from(self.unused(first));
                left.min(u64::from(quota.limit))
            }
            None => u64::from(quota.limit.saturating_sub(self.used(first))),
        }
    }

    pub(crate) fn allowance(&self, quota: Quota, now: Timestamp) -> Allowance {
        let now = self.time(now);
        let (first, next) = quota.period.days(now);
        Allowance {
            name: "quota",
            limit: u64::from(quota.limit),
            window: u64::try_from((next - first) * 86_400).unwrap_or(0),
            remaining: self.remaining(quota, first_day(first)),
            reset: seconds_until(next, now),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        Timestamp::parse(text).expect("a time")
    }

    #[test]
    fn a_quota_ends_with_its_period_and_is_never_exceeded() {
        let quota: Quota = "2/day".parse().expect("a quota");
        let (meter, noon) = (Meter::default(), at("2026-05-01T12:00:00Z"));
        meter.reserve(quota, noon).expect("first");
        meter.keep();
        meter.reserve(quota, noon).expect("second");
        assert_eq!(
            meter.reserve(quota, noon),
            Err(LimitExceeded::Quota { retry_after: 1 }),
            "it may be given back"
        );
        meter.keep();
        assert_eq!(meter.reserve(quota, noon), Err(LimitExceeded::Quota { retry_after: 43_200 }));
        assert_eq!(meter.check(quota, noon), Err(LimitExceeded::Quota { retry_after: 43_200 }));
        meter.reserve(quota, at("2026-05-02")).expect("a new day");
    }

    #[test]
    fn a_day_that_begins_again_goes_on_with_what_was_used_of_it() {
        let quota: Quota = "2/day".parse().expect("a quota");
        let (meter, today, tomorrow) = (Meter::default(), at("2026-05-01T23:59:00Z"), at("2026-05-02"));
        let used_up = |now| meter.reserve(quota, now).is_err() && meter.check(quota, now).is_err();
        let use_one = |now| {
            meter.reserve(quota, now).expect("not used up");
            meter.keep();
        };
        use_one(today);
        use_one(today);
        use_one(tomorrow);
        assert!(used_up(today), "the clock went back");
        use_one(tomorrow);
        assert!(used_up(tomorrow), "the day was not given twice");
        // A clock that was a year ahead for a moment.
        use_one(at("2027-05-02"));
        assert!(used_up(tomorrow));
        assert_eq!(meter.allowance(quota, at("2026-05-03")).remaining, 2, "the next day is a whole one");
    }

    #[test]
    fn a_hit_goes_back_to_the_period_in_which_it_was_reserved() {
        let quota: Quota = "1/day".parse().expect("a quota");
        let (meter, today, tomorrow) = (Meter::default(), at("2026-05-01"), at("2026-05-02"));
        meter.reserve(quota, today).expect("today's");
        meter.reserve(quota, tomorrow).expect("tomorrow's");
        meter.give_back(quota, today);
        assert_eq!(meter.allowance(quota, tomorrow).remaining, 0);
        assert_eq!(meter.allowance(quota, today).remaining, 1);
    }

    #[test]
    fn threads_on_both_sides_of_midnight_use_each_quota_exactly_once() {
        let quota: Quota = "1000/day".parse().expect("a quota");
        let meter = Meter::default();
        let use_all = |now| (0..2_000).filter(|_| meter.reserve(quota, now).is_ok()).count();
        let (today, tomorrow) = (at("2026-05-01T23:59:59Z"), at("2026-05-02"));
        let used: Vec<usize> = std::thread::scope(|scope| {
            let threads = [today, tomorrow, today, tomorrow].map(|now| scope.spawn(move || use_all(now)));
            threads.map(|thread| thread.join().expect("ends")).to_vec()
        });
        assert_eq!((used[0] + used[2], used[1] + used[3]), (1_000, 1_000));
    }
}
