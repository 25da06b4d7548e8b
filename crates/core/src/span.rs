//! Lengths of time as people write them: a number and s, m, h, d or w.

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

/// How long something lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// For this long.
    For(Duration),
    /// No end.
    Forever,
}

impl Lifetime {
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
}
