//! Rate limits, and quotas of tokens.
//!
//! A rate is a bucket that refills evenly (GCRA). A quota counts hits in a UTC day or
//! month. Both are atomics, so workers never wait for each other; only a change of the day or month takes a lock.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::Timestamp;
use crate::leased::{Leased, QuotaLeases};

/// How many requests may be sent: `count` per `seconds`, at most `burst` at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Requests per window.
    pub count: u32,
    /// Length of the window: 1, 60 or 3,600 seconds.
    pub seconds: u32,
    /// How many requests may come at once.
    pub burst: u32,
}

/// How many hits a token may have in a UTC day or month.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Hits per period.
    pub limit: u32,
    /// The period.
    pub period: Period,
}

/// The period of a quota, in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Period {
    /// From midnight to midnight.
    Day,
    /// From the first day of a month to the first day of the next.
    Month,
}

/// A rate or quota that cannot be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitSyntax {
    /// The text is not a rate.
    #[error("write a rate like 50/s, 600/m or 1000/h")]
    Rate,
    /// The text is not a quota.
    #[error("write a quota like 10000/day or 200000/month")]
    Quota,
}

/// A limit as it is asked for: one, or `none`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrNone<T>(pub Option<T>);

impl<T: FromStr<Err = LimitSyntax>> FromStr for OrNone<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self(None)),
            text => text.parse().map(|limit| Self(Some(limit))).map_err(|error| format!("{error}, or none")),
        }
    }
}

impl FromStr for Rate {
    type Err = LimitSyntax;

    /// Parses text like `50/s`. The burst is set to the same number.
    fn from_str(text: &str) -> Result<Self, LimitSyntax> {
        let (count, window) = text.split_once('/').ok_or(LimitSyntax::Rate)?;
        let count = count.parse().ok().filter(|&count| count > 0).ok_or(LimitSyntax::Rate)?;
        let seconds = match window {
            "s" | "sec" | "second" => 1,
            "m" | "min" | "minute" => 60,
            "h" | "hour" => 3_600,
            _ => return Err(LimitSyntax::Rate),
        };
        Ok(Self { count, seconds, burst: count })
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let window = match self.seconds {
            60 => "m",
            3_600 => "h",
            _ => "s",
        };
        write!(f, "{}/{window}", self.count)
    }
}

impl FromStr for Quota {
    type Err = LimitSyntax;

    fn from_str(text: &str) -> Result<Self, LimitSyntax> {
        let (limit, period) = text.split_once('/').ok_or(LimitSyntax::Quota)?;
        let limit = limit.parse().map_err(|_| LimitSyntax::Quota)?;
        let period = match period {
            "d" | "day" => Period::Day,
            "month" => Period::Month,
            _ => return Err(LimitSyntax::Quota),
        };
        Ok(Self { limit, period })
    }
}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let period = match self.period {
            Period::Day => "day",
            Period::Month => "month",
        };
        write!(f, "{}/{period}", self.limit)
    }
}

impl Period {
    /// The first day of the period that contains `now`, and the first day of the next period.
    pub fn days(self, now: Timestamp) -> (i64, i64) {
        let today = now.day();
        match self {
            Self::Day => (today, today + 1),
            Self::Month => month_of(today),
        }
    }
}

fn month_of(day: i64) -> (i64, i64) {
    let epoch = jiff::civil::date(1970, 1, 1);
    let span = jiff::Span::new().try_days(day);
    let bounds = span.and_then(|span| epoch.checked_add(span)).and_then(|date| {
        let next = date.last_of_month().tomorrow()?;
        Ok((epoch.until(date.first_of_month())?.get_days(), epoch.until(next)?.get_days()))
    });
    bounds.map_or((day, day + 1), |(first, next)| (i64::from(first), i64::from(next)))
}

/// A limit was reached. Try again after this many seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitExceeded {
    /// Too many requests in a short time.
    #[error("rate limit reached")]
    Rate {
        /// Seconds until one request is allowed again.
        retry_after: u64,
    },
    /// No hits left in this period.
    #[error("quota used up")]
    Quota {
        /// Seconds until the next period begins.
        retry_after: u64,
    },
    /// In a cluster: the quota is not used up, but no unit of it is leased to this node. Try again in a second.
    #[error("no unit of the quota is leased to this node, and the database has not leased one in time")]
    Unleased,
}

/// One limit and what remains of it, as reported to callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// `rate` or `quota`.
    pub name: &'static str,
    /// The limit per window.
    pub limit: u64,
    /// The window, in seconds.
    pub window: u64,
    /// What remains in the window.
    pub remaining: u64,
    /// Seconds until the full limit is available again.
    pub reset: u64,
}

/// The limits of one token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allowances {
    /// The rate, if the token has one.
    pub rate: Option<Allowance>,
    /// The quota, if the token has one.
    pub quota: Option<Allowance>,
}

/// What is left of a rate, stored as the time at which the bucket will be full again, in nanoseconds since 1970. A new
/// bucket is full. All calls on one bucket must have the same rate.
#[derive(Debug, Default)]
pub struct Bucket(AtomicI64);

const SECOND: i64 = 1_000_000_000;

impl Bucket {
    /// Takes one request from the bucket, or returns how long to wait.
    pub fn take(&self, rate: Rate, now: Timestamp) -> Result<(), LimitExceeded> {
        let now = nanos(now);
        let (interval, depth) = (interval(rate), depth(rate));
        // More than an empty bucket needs can be missing only if the clock went back. It counts as empty then.
        let missing = |whole_at: i64| whole_at.saturating_sub(now).clamp(0, depth);
        let taken = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, |whole_at| {
            let missing = missing(whole_at) + interval;
            (missing <= depth).then(|| now.saturating_add(missing))
        });
        taken.map(|_| ()).map_err(|whole_at| {
            // Stored, so that it refills from now on, although nothing was taken.
            let empty = now.saturating_add(depth);
            self.0.fetch_min(empty, Ordering::AcqRel);
            let wait = missing(whole_at) + interval - depth;
            LimitExceeded::Rate { retry_after: ceil_seconds(wait).max(1) }
        })
    }

    /// Whether a request could be taken. Takes nothing.
    pub fn check(&self, rate: Rate, now: Timestamp) -> Result<(), LimitExceeded> {
        Self(AtomicI64::new(self.0.load(Ordering::Acquire))).take(rate, now)
    }

    /// Gives back a request that was taken.
    pub fn give_back(&self, rate: Rate) {
        self.0.fetch_sub(interval(rate), Ordering::AcqRel);
    }

    /// How long it takes until the bucket is full; zero if it is full now.
    pub fn time_to_full(&self, now: Timestamp) -> Duration {
        let missing = self.0.load(Ordering::Acquire).saturating_sub(nanos(now));
        Duration::from_nanos(u64::try_from(missing).unwrap_or(0))
    }

    pub(crate) fn allowance(&self, rate: Rate, now: Timestamp) -> Allowance {
        let (interval, burst) = (interval(rate), rate.burst.max(1));
        let missing = self.0.load(Ordering::Acquire).saturating_sub(nanos(now)).clamp(0, depth(rate));
        let used = u64::try_from(missing.div_ceil_positive(interval)).unwrap_or(0);
        Allowance {
            name: "rate",
            limit: u64::from(burst),
            window: ceil_seconds(depth(rate)).max(1),
            remaining: u64::from(burst).saturating_sub(used),
            reset: ceil_seconds(missing),
        }
    }
}

fn interval(rate: Rate) -> i64 {
    (SECOND * i64::from(rate.seconds) / i64::from(rate.count.max(1))).max(1)
}

/// How far in the future the stored time may be: the time to refill an empty bucket, at most thirty years.
fn depth(rate: Rate) -> i64 {
    const MAX: i64 = 30 * 366 * 86_400 * SECOND;
    interval(rate).saturating_mul(i64::from(rate.burst.max(1))).min(MAX)
}

fn nanos(time: Timestamp) -> i64 {
    time.millis().saturating_mul(1_000_000)
}

fn ceil_seconds(nanos: i64) -> u64 {
    u64::try_from(nanos.max(0).div_ceil_positive(SECOND)).unwrap_or(0)
}

trait DivCeil {
    fn div_ceil_positive(self, by: Self) -> Self;
}

impl DivCeil for i64 {
    fn div_ceil_positive(self, by: Self) -> Self {
        (self + by - 1) / by
    }
}

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

/// The count of a meter whose units are leased, when it has none left.
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

    /// Starts without a unit, and with the hits already counted in the period that contains `now`.
    pub(crate) fn leased(quota: Quota, used: u64, now: Timestamp, leases: Arc<QuotaLeases>) -> Self {
        let first = first_day(quota.period.days(now).0);
        Self {
            packed: AtomicU64::new(Self::pack(first, FULL)),
            leased: Some(Leased::new(leases, quota.limit, first, used)),
            ..Self::default()
        }
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

    fn others(&self) -> MutexGuard<'_, BTreeMap<u64, u32>> {
        self.others.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The hits in a period, which need not be the current one.
    fn used(&self, first: u64) -> u32 {
        match Self::unpack(self.packed.load(Ordering::Acquire)) {
            (current, used) if current == first => used,
            _ => {
                let others = self.others();
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
        let mut others = self.others();
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
        let used = u64::from(self.used(first_day(first)));
        let is_used_up = used.saturating_sub(reserved) >= u64::from(quota.limit);
        LimitExceeded::Quota { retry_after: if is_used_up { seconds_until(next, now) } else { 1 } }
    }

    /// Reserves a hit, unless the quota is used up. The count never exceeds the quota. Every hit that is reserved
    /// is [kept](Self::keep) or [given back](Self::give_back).
    pub(crate) fn reserve(&self, quota: Quota, now: Timestamp) -> Result<(), LimitExceeded> {
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
        let first = first_day(quota.period.days(reserved_at).0);
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
        let mut others = self.others();
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
        let mut others = self.others();
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

/// The first day of a period, as it is stored.
pub(crate) fn first_day(day: i64) -> u64 {
    u64::try_from(day).unwrap_or(0)
}

fn seconds_until(day: i64, now: Timestamp) -> u64 {
    let millis = Timestamp::start_of_day(day).millis() - now.millis();
    u64::try_from(millis.div_ceil_positive(1_000)).unwrap_or(0).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        Timestamp::parse(text).expect("a time")
    }

    #[test]
    fn a_bucket_gives_its_burst_and_then_one_per_interval() {
        let rate = Rate { burst: 3, ..("2/s".parse().expect("a rate")) };
        let (bucket, start) = (Bucket::default(), at("2026-05-01"));
        for _ in 0..3 {
            bucket.take(rate, start).expect("within the burst");
        }
        assert_eq!(bucket.allowance(rate, start).remaining, 0);
        assert_eq!(bucket.take(rate, start), Err(LimitExceeded::Rate { retry_after: 1 }));
        let later = Timestamp::from_millis(start.millis() + 500);
        assert_eq!(bucket.allowance(rate, later).remaining, 1);
        bucket.take(rate, later).expect("one has come back");
        assert!(bucket.take(rate, later).is_err());
    }

    #[test]
    fn what_is_given_back_can_be_taken_again() {
        let rate: Rate = "2/h".parse().expect("a rate");
        let (bucket, now) = (Bucket::default(), at("2026-05-01"));
        assert_eq!(bucket.time_to_full(now), Duration::ZERO);
        bucket.take(rate, now).expect("the first");
        bucket.check(rate, now).expect("there is a second, and this does not take it");
        bucket.take(rate, now).expect("the second");
        assert_eq!(bucket.time_to_full(now), Duration::from_secs(3_600));
        let used_up = Err(LimitExceeded::Rate { retry_after: 1_800 });
        assert_eq!((bucket.check(rate, now), bucket.take(rate, now)), (used_up, used_up));
        bucket.give_back(rate);
        bucket.take(rate, now).expect("it was given back");
        for _ in 0..2 {
            bucket.give_back(rate);
        }
        assert_eq!(bucket.time_to_full(now), Duration::ZERO);
    }

    #[test]
    fn an_enormous_burst_is_only_enormous() {
        let rate = Rate { count: 1, seconds: 3_600, burst: u32::MAX };
        let (bucket, now) = (Bucket::default(), at("2026-05-01"));
        for _ in 0..1_000 {
            bucket.take(rate, now).expect("within the burst");
        }
        assert!(bucket.allowance(rate, now).remaining > 0);
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
    fn after_the_clock_went_back_a_bucket_is_empty_and_refills_from_then_on() {
        let rate: Rate = "2/s".parse().expect("a rate");
        let (bucket, start) = (Bucket::default(), at("2026-05-01T12:00:00Z"));
        bucket.take(rate, start).expect("within the burst");
        let back = at("2025-05-01T12:00:00Z");
        assert_eq!(bucket.take(rate, back), Err(LimitExceeded::Rate { retry_after: 1 }));
        assert_eq!(bucket.allowance(rate, back).reset, 1, "not a year");
        let later = Timestamp::from_millis(back.millis() + 500);
        bucket.take(rate, later).expect("one has come back");
        assert!(bucket.take(rate, later).is_err());
        // Forward, it is full.
        for _ in 0..rate.burst {
            bucket.take(rate, start).expect("within the burst");
        }
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

    #[test]
    fn a_month_runs_from_the_first_to_the_first() {
        let (first, next) = Period::Month.days(at("2028-02-29T23:59:59Z"));
        assert_eq!(Timestamp::start_of_day(first), at("2028-02-01"));
        assert_eq!(Timestamp::start_of_day(next), at("2028-03-01"));
    }

    #[test]
    fn limits_print_as_they_are_written() {
        for text in ["50/s", "600/m", "7/h"] {
            assert_eq!(text.parse::<Rate>().expect(text).to_string(), text);
        }
        for text in ["10000/day", "5/month", "0/day"] {
            assert_eq!(text.parse::<Quota>().expect(text).to_string(), text);
        }
        assert_eq!("none".parse(), Ok(OrNone::<Rate>(None)));
        assert_eq!("x".parse::<OrNone<Quota>>(), Err(format!("{}, or none", LimitSyntax::Quota)));
        for text in ["", "50", "0/s", "-1/s", "50/week", "x/s"] {
            assert!(text.parse::<Rate>().is_err(), "{text}");
        }
    }
}
