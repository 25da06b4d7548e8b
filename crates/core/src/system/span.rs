//! Lengths of time as people write them: a number and s, m, h, d or w.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::Deserialize;

use crate::Timestamp;

/// A length of time, such as `90d`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Span(pub Duration);

/// A hundred years, in seconds. Times further away cannot be written.
const LONGEST: u64 = 36_500 * 86_400;

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("`{text}` is not a length of time: write a number and s, m, h, d or w, like 90d");
        let unit = match text.chars().last() {
            Some('s') => 1,
            Some('m') => 60,
            Some('h') => 3_600,
            Some('d') => 86_400,
            Some('w') => 7 * 86_400,
            _ => return Err(wrong()),
        };
        let count: u32 = text[..text.len() - 1].parse().map_err(|_| wrong())?;
        let seconds = u64::from(count) * unit;
        if seconds > LONGEST {
            return Err(format!("`{text}` is too long: at most 36500d, a hundred years"));
        }
        Ok(Self(Duration::from_secs(seconds)))
    }
}

impl TryFrom<String> for Span {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// In days, or in the largest smaller unit that needs no fraction.
impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        let units = [(86_400, 'd'), (3_600, 'h'), (60, 'm')];
        let fits = |&(unit, _): &(u64, char)| seconds >= unit && seconds.is_multiple_of(unit);
        let (unit, name) = units.into_iter().find(fits).unwrap_or((1, 's'));
        write!(f, "{}{name}", seconds / unit)
    }
}

impl serde::Serialize for Span {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A time, as people name it: itself, or how long ago it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// This time.
    At(Timestamp),
    /// This long ago.
    Ago(Duration),
}

impl Moment {
    /// The time that is meant at `now`.
    pub fn when(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(time) => time,
            Self::Ago(length) => now.minus(length),
        }
    }
}

impl FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(time) = Timestamp::parse(text) {
            return Ok(Self::At(time));
        }
        let ago = text.parse().map(|Span(length)| Self::Ago(length));
        ago.map_err(|_| {
            "write a date like 2026-05-01, an RFC 3339 time, or how long ago like 30d (s, m, h, d or w)"
                .to_owned()
        })
    }
}

/// How long something lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Lifetime {
    /// For this long.
    For(Duration),
    /// No end.
    Forever,
}

impl Lifetime {
    /// Whether it ends when it begins.
    pub const fn is_empty(self) -> bool {
        matches!(self, Self::For(Duration::ZERO))
    }

    /// When something ends that begins at `now`; `None` if it does not.
    pub fn end(self, now: Timestamp) -> Option<Timestamp> {
        match self {
            Self::For(length) => Some(now.plus(length)),
            Self::Forever => None,
        }
    }
}

impl FromStr for Lifetime {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "never" => Ok(Self::Forever),
            text => text
                .parse()
                .map(|Span(length)| Self::For(length))
                .map_err(|error: String| error + ", or never"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_is_read() {
        for (text, seconds) in [("5s", 5), ("2m", 120), ("24h", 86_400), ("90d", 7_776_000), ("1w", 604_800)]
        {
            assert_eq!(text.parse(), Ok(Span(Duration::from_secs(seconds))));
        }
        for text in ["", "5", "d", "36501d", "4294967295w", "-5d", "5y", "1.5h", "5 d", "é"] {
            assert!(text.parse::<Span>().is_err(), "{text}");
        }
        assert_eq!("never".parse(), Ok(Lifetime::Forever));
    }

    #[test]
    fn a_span_is_written_as_it_is_read() {
        for text in ["0s", "90s", "5m", "25h", "10d", "365d"] {
            assert_eq!(text.parse::<Span>().map(|span| span.to_string()).as_deref(), Ok(text));
        }
    }

    #[test]
    fn a_moment_is_a_time_or_how_long_ago_it_was() {
        let now = Timestamp::from_seconds(86_400);
        let when = |text: &str| text.parse::<Moment>().map(|moment| moment.when(now).seconds());
        assert_eq!(when("1h"), Ok(86_400 - 3_600));
        assert_eq!(when("1970-01-03"), Ok(2 * 86_400));
        assert_eq!(when("1970-01-01T00:00:07Z"), Ok(7));
        assert!(when("yesterday").is_err() && when("").is_err() && when("-1d").is_err());
    }
}
