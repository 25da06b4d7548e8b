//! The time, passed in wherever it matters. Nothing else reads the system clock.

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

/// A moment, in milliseconds since 1970-01-01 UTC. Prints as RFC 3339.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

const DAY_MILLIS: i64 = 86_400_000;

impl Timestamp {
    /// The moment this many milliseconds after 1970 began.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// The moment this many seconds after 1970 began.
    pub const fn from_seconds(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1_000))
    }

    /// Milliseconds since 1970 began.
    pub const fn millis(self) -> i64 {
        self.0
    }

    /// Whole seconds since 1970 began.
    pub const fn seconds(self) -> i64 {
        self.0.div_euclid(1_000)
    }

    /// Days since 1970 began, in UTC.
    pub const fn day(self) -> i64 {
        self.0.div_euclid(DAY_MILLIS)
    }

    /// The moment a UTC day begins.
    pub const fn start_of_day(day: i64) -> Self {
        Self(day * DAY_MILLIS)
    }

    /// This moment and `duration` later.
    pub fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)))
    }

    /// Reads an RFC 3339 time, or a date, which means 00:00 UTC.
    pub fn parse(text: &str) -> Option<Self> {
        if let Ok(time) = text.parse::<jiff::Timestamp>() {
            return Some(Self(time.as_millisecond()));
        }
        if text.len() != "2026-05-01".len() {
            return None;
        }
        let date = text.parse::<jiff::civil::Date>().ok()?;
        let time = date.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp();
        Some(Self(time.as_millisecond()))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(time) => time.fmt(f),
            Err(_) => write!(f, "{} ms", self.0),
        }
    }
}

/// Tells the time.
pub trait Clock: Send + Sync {
    /// The time now.
    fn now(&self) -> Timestamp;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the system clock")]
    fn now(&self) -> Timestamp {
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Timestamp(i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX))
    }
}

/// A clock that stands still until it is set.
#[derive(Debug)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    /// A clock that shows `now`.
    pub fn at(now: Timestamp) -> Self {
        Self(AtomicI64::new(now.0))
    }

    /// Moves the clock on.
    pub fn advance(&self, by: Duration) {
        self.0.store(self.now().plus(by).0, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_means_the_beginning_of_that_day_in_utc() {
        assert_eq!(
            Timestamp::parse("2026-05-01").map(|t| t.to_string()).as_deref(),
            Some("2026-05-01T00:00:00Z")
        );
    }

    #[test]
    fn times_are_read_with_their_offset() {
        let time = Timestamp::parse("2026-05-01T02:00:00+02:00");
        assert_eq!(time, Timestamp::parse("2026-05-01T00:00:00Z"));
    }

    #[test]
    fn other_orders_and_impossible_dates_are_not_times() {
        for text in ["", "01.05.2026", "05/01/2026", "2026-02-30", "2026-5-1", "20260501", "yesterday"] {
            assert_eq!(Timestamp::parse(text), None, "{text}");
        }
    }
}
