//! The time, which is passed in where it is needed. Only this module reads the system clock.

use std::fmt;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use jiff::civil::{Date, DateTime, Time, date};
use jiff::{SignedDuration, Span, Unit};

/// A point in time, in milliseconds since 1970-01-01 UTC. Prints as RFC 3339.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

const DAY_MILLIS: i64 = 86_400_000;
const FIRST_DAY: Date = date(1970, 1, 1);

impl Timestamp {
    /// The time this many milliseconds after 1970-01-01 UTC.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// The time this many seconds after 1970-01-01 UTC.
    pub const fn from_seconds(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1_000))
    }

    /// Milliseconds since 1970-01-01 UTC.
    pub const fn millis(self) -> i64 {
        self.0
    }

    /// Whole seconds since 1970-01-01 UTC.
    pub const fn seconds(self) -> i64 {
        self.0.div_euclid(1_000)
    }

    /// Whole days since 1970-01-01 UTC.
    pub const fn day(self) -> i64 {
        self.0.div_euclid(DAY_MILLIS)
    }

    /// The start of a UTC day.
    pub const fn start_of_day(day: i64) -> Self {
        Self(day * DAY_MILLIS)
    }

    /// The time `duration` after this one.
    pub fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)))
    }

    /// The time `duration` before this one.
    pub fn minus(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)))
    }

    /// Parses an RFC 3339 time, or a date, which means 00:00 UTC.
    pub fn parse(text: &str) -> Option<Self> {
        if let Ok(time) = text.parse::<jiff::Timestamp>() {
            if !has_possible_offset(text) {
                return None;
            }
            return Some(Self(time.as_millisecond()));
        }
        // People write 9999-12-31 to mean never, but it is out of range for jiff's timestamps.
        let civil = match text.strip_suffix(['Z', 'z']) {
            Some(time) if time.contains(['T', 't', ' ']) => time.parse::<DateTime>().ok()?,
            None if text.len() == "2026-05-01".len() => {
                text.parse::<Date>().ok()?.to_datetime(Time::midnight())
            }
            _ => return None,
        };
        Self::from_civil(civil)
    }

    /// The date and time in UTC, as `strftime` formats it, such as `%-d %B %Y`.
    pub fn formatted(self, format: &str) -> String {
        self.to_civil().map_or_else(|| self.to_string(), |civil| civil.strftime(format).to_string())
    }

    fn to_civil(self) -> Option<DateTime> {
        let date = FIRST_DAY.checked_add(Span::new().days(self.day().clamp(-4_000_000, 4_000_000))).ok()?;
        let in_day = SignedDuration::from_millis(self.0.rem_euclid(DAY_MILLIS));
        Some(date.to_datetime(Time::midnight()).saturating_add(in_day))
    }

    /// This date and time in UTC.
    pub(crate) fn from_civil(civil: DateTime) -> Option<Self> {
        let since = FIRST_DAY.until((Unit::Day, civil.date())).ok()?;
        let in_day = civil.time().duration_since(Time::midnight());
        Some(Self(i64::from(since.get_days()) * DAY_MILLIS + i64::try_from(in_day.as_millis()).ok()?))
    }
}

/// Whether the offset of a time, if it has one, is less than a day: RFC 3339 allows nothing else.
fn has_possible_offset(text: &str) -> bool {
    let time = text.split_once(['T', 't', ' ']).map_or("", |(_, time)| time);
    let Some((_, offset)) = time.rsplit_once(['+', '-']) else { return true };
    let mut parts = offset.split(':').map(|part| part.get(..2).and_then(|part| part.parse::<u8>().ok()));
    parts.next().flatten().is_none_or(|hours| hours < 24)
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Ok(time) = jiff::Timestamp::from_millisecond(self.0) {
            return time.fmt(f);
        }
        match self.to_civil() {
            Some(civil) => write!(f, "{civil}Z"),
            None => write!(f, "{} ms", self.0),
        }
    }
}

impl<'de> serde::Deserialize<'de> for Timestamp {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom("not a time"))
    }
}

impl serde::Serialize for Timestamp {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Tells the time.
pub trait Clock: Send + Sync {
    /// The current time.
    fn now(&self) -> Timestamp;
}

/// The system clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the system clock")]
    fn now(&self) -> Timestamp {
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Timestamp(i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX))
    }
}

/// Also tells how long ago the machine was started, which nobody can set.
pub trait BootClock: Clock {
    /// The time since the machine was started, including the time it was asleep.
    fn since_boot(&self) -> Duration;
}

impl BootClock for SystemClock {
    fn since_boot(&self) -> Duration {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
    }
}

/// A clock that only moves when [`advance`](Self::advance) is called.
#[derive(Debug)]
pub struct ManualClock {
    now: AtomicI64,
    /// Milliseconds since the machine was started.
    since_boot: AtomicU64,
}

impl ManualClock {
    /// A clock set to `now`.
    pub fn at(now: Timestamp) -> Self {
        Self { now: AtomicI64::new(now.0), since_boot: AtomicU64::new(1_000) }
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        self.now.store(self.now().plus(by).0, Ordering::SeqCst);
        self.since_boot.fetch_add(u64::try_from(by.as_millis()).unwrap_or(u64::MAX), Ordering::SeqCst);
    }

    /// Sets the clock, forward or back. The time since the machine was started stays the same.
    pub fn set(&self, now: Timestamp) {
        self.now.store(now.0, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.now.load(Ordering::SeqCst))
    }
}

impl BootClock for ManualClock {
    fn since_boot(&self) -> Duration {
        Duration::from_millis(self.since_boot.load(Ordering::SeqCst))
    }
}

/// Notices that the clock was set, by comparing it with one that cannot be.
#[derive(Debug)]
pub struct ClockWatch {
    /// What both clocks said last.
    last: (Timestamp, Instant),
}

/// The clock was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockJump {
    /// By how much.
    pub by: Duration,
    /// Whether it was set back.
    pub is_back: bool,
}

impl ClockWatch {
    /// What the clock may differ from one look to the next: it is being corrected, or the machine was busy.
    const TOLERANCE: Duration = Duration::from_secs(5);

    /// Begins to watch.
    pub fn start(now: Timestamp, steady: Instant) -> Self {
        Self { last: (now, steady) }
    }

    /// Whether the clock was set since the last call.
    pub fn jump(&mut self, now: Timestamp, steady: Instant) -> Option<ClockJump> {
        let (last, last_steady) = std::mem::replace(&mut self.last, (now, steady));
        let passed = steady.saturating_duration_since(last_steady);
        let ahead = now.0.saturating_sub(last.plus(passed).0);
        let by = Duration::from_millis(ahead.unsigned_abs());
        (by >= Self::TOLERANCE).then_some(ClockJump { by, is_back: ahead < 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_set_is_noticed_once() {
        let (start, steady) = (Timestamp::from_seconds(1_000_000), Instant::now());
        let mut watch = ClockWatch::start(start, steady);
        let later = |seconds: i64| (Timestamp::from_seconds(1_000_000 + seconds), Duration::from_secs(10));
        let mut look = |(now, passed): (Timestamp, Duration), by: u32| watch.jump(now, steady + passed * by);
        assert_eq!(look(later(10), 1), None);
        assert_eq!(look(later(24), 2), None, "it is being corrected");
        let hour = Duration::from_secs(3_600);
        assert_eq!(look(later(34 - 3_600), 3), Some(ClockJump { by: hour, is_back: true }));
        assert_eq!(look(later(44 - 3_600), 4), None);
        assert_eq!(look(later(54), 5), Some(ClockJump { by: hour, is_back: false }));
    }
}
