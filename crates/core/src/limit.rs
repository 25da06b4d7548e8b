//! Rate limits, and quotas of tokens.
//!
//! A rate is a bucket that refills evenly (GCRA). A quota counts hits in a UTC day or
//! month. Both are atomics, so workers never wait for each other.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use crate::Timestamp;

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
        let taken = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, |whole_at| {
            let next = whole_at.max(now) + interval;
            (next - now <= depth).then_some(next)
        });
        taken.map(|_| ()).map_err(|whole_at| {
            let wait = whole_at + interval - depth - now;
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
        let missing = (self.0.load(Ordering::Acquire) - nanos(now)).max(0);
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

/// Hits in the current period.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    /// The upper bits hold the first day of the period, the lower bits the count.
    packed: AtomicU64,
    /// How many of them are only reserved, by requests under way.
    reserved: AtomicU64,
}

impl Meter {
    const COUNT_BITS: u32 = 32;

    /// Starts with the hits already counted in the period that contains `now`.
    pub(crate) fn starting_at(quota: Quota, used: u64, now: Timestamp) -> Self {
        let used = u32::try_from(used).unwrap_or(u32::MAX);
        Self { packed: AtomicU64::new(Self::pack(quota.period.days(now).0, used)), ..Self::default() }
    }

    fn pack(first_day: i64, used: u32) -> u64 {
        (u64::try_from(first_day).unwrap_or(0) << Self::COUNT_BITS) | u64::from(used)
    }

    fn used(packed: u64, first_day: i64) -> u32 {
        let is_current = packed >> Self::COUNT_BITS == u64::try_from(first_day).unwrap_or(0);
        if is_current { u32::try_from(packed & u64::from(u32::MAX)).unwrap_or(u32::MAX) } else { 0 }
    }

    /// Checks whether another hit is allowed.
    pub(crate) fn check(&self, quota: Quota, now: Timestamp) -> Result<(), LimitExceeded> {
        let (first, next) = quota.period.days(now);
        if Self::used(self.packed.load(Ordering::Acquire), first) < quota.limit {
            return Ok(());
        }
        Err(self.exceeded(quota, first, next, now))
    }

    /// What is reserved may be given back in a moment.
    fn exceeded(&self, quota: Quota, first: i64, next: i64, now: Timestamp) -> LimitExceeded {
        let reserved = self.reserved.load(Ordering::Acquire);
        let used = u64::from(Self::used(self.packed.load(Ordering::Acquire), first));
        let is_used_up = used.saturating_sub(reserved) >= u64::from(quota.limit);
        LimitExceeded::Quota { retry_after: if is_used_up { seconds_until(next, now) } else { 1 } }
    }

    /// Reserves a hit, unless the quota is used up. The count never exceeds the quota. Every hit that is reserved
    /// is [kept](Self::keep) or [given back](Self::give_back).
    pub(crate) fn reserve(&self, quota: Quota, now: Timestamp) -> Result<(), LimitExceeded> {
        let (first, next) = quota.period.days(now);
        self.reserved.fetch_add(1, Ordering::AcqRel);
        let reserved = self.packed.fetch_update(Ordering::AcqRel, Ordering::Acquire, |packed| {
            let used = Self::used(packed, first);
            (used < quota.limit).then(|| Self::pack(first, used + 1))
        });
        reserved.map(|_| ()).map_err(|_| {
            self.keep();
            self.exceeded(quota, first, next, now)
        })
    }

    /// A reserved hit was disclosed.
    pub(crate) fn keep(&self) {
        self.reserved.fetch_sub(1, Ordering::AcqRel);
    }

    /// Takes back a hit that was reserved at `reserved_at`, if its period is still the current one.
    pub(crate) fn give_back(&self, quota: Quota, reserved_at: Timestamp) {
        let (first, _) = quota.period.days(reserved_at);
        self.keep();
        let _ = self.packed.fetch_update(Ordering::AcqRel, Ordering::Acquire, |packed| {
            let used = Self::used(packed, first);
            (used > 0).then(|| Self::pack(first, used - 1))
        });
    }

    pub(crate) fn allowance(&self, quota: Quota, now: Timestamp) -> Allowance {
        let (first, next) = quota.period.days(now);
        let used = Self::used(self.packed.load(Ordering::Acquire), first);
        Allowance {
            name: "quota",
            limit: u64::from(quota.limit),
            window: u64::try_from((next - first) * 86_400).unwrap_or(0),
            remaining: u64::from(quota.limit.saturating_sub(used)),
            reset: seconds_until(next, now),
        }
    }
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
