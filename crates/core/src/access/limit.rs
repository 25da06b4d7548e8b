//! Rate limits, and quotas of tokens.
//!
//! A rate is a bucket that refills evenly (GCRA). A quota counts hits in a UTC day or
//! month. Both are atomics, so workers never wait for each other; only a change of the day or month takes a lock.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Timestamp;

/// How many requests may be sent: `count` per `seconds`, at most `burst` at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    /// Requests per window.
    pub count: u32,
    /// Length of the window: 1, 60 or 3,600 seconds.
    pub seconds: u32,
    /// How many requests may come at once.
    pub burst: u32,
}

impl Rate {
    /// The rate of a token of the sandbox that has none of its own.
    pub const OF_SANDBOX: Self = Self { count: 10, seconds: 1, burst: 10 };
}

/// How many hits a token may have in a UTC day or month.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quota {
    /// Hits per period.
    pub limit: u32,
    /// The period.
    pub period: Period,
}

/// The period of a quota, in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
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
        write!(f, "{}/{}", self.limit, self.period.name())
    }
}

impl Period {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Month => "month",
        }
    }

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
    /// The quota may not be used up, but this server has no unit of it: in a cluster, none is leased to this node; after a crash, it is
    /// not counted yet what was used. Try again in a second.
    #[error(
        "no unit of the quota is leased to this node, and the database has not leased one in time, or what was used before a crash is still counted"
    )]
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

/// The first day of a period, as it is stored.
pub(crate) fn first_day(day: i64) -> u64 {
    u64::try_from(day).unwrap_or(0)
}

pub(crate) fn seconds_until(day: i64, now: Timestamp) -> u64 {
    let millis = Timestamp::start_of_day(day).millis() - now.millis();
    u64::try_from(div_ceil(millis, 1_000)).unwrap_or(0).max(1)
}

/// Divides and rounds up; both are positive.
pub(super) const fn div_ceil(value: i64, by: i64) -> i64 {
    (value + by - 1) / by
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        Timestamp::parse(text).expect("a time")
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
