//! What is allowed in an import, as people write it.

use std::str::FromStr;

use contactd_core::is_printable;

use crate::imports::MaxRejects;

/// The longest name of a source.
const MAX_CHARS: usize = 100;

/// A text is not a limit of rejected rows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is neither a share like 10% nor a number of rows")]
pub struct NotALimit(String);

/// A text is not a share.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a share: write a number from 0 to 100 and %, like 20%")]
pub struct NotAShare(String);

/// A text is not the name of a source.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a name has 1 to {MAX_CHARS} printable characters")]
pub struct NotASource;

impl FromStr for MaxRejects {
    type Err = NotALimit;

    /// A share, such as `10%`, or a number of rows.
    fn from_str(text: &str) -> Result<Self, NotALimit> {
        let wrong = || NotALimit(text.to_owned());
        match text.strip_suffix('%') {
            Some(share) => match share.trim().parse::<f64>() {
                Ok(share) if (0.0..=100.0).contains(&share) => Ok(Self::Share(share / 100.0)),
                _ => Err(wrong()),
            },
            None => text.parse().map(Self::Rows).map_err(|_| wrong()),
        }
    }
}

/// A share of details, such as `20%`.
pub fn parse_share(text: &str) -> Result<f64, NotAShare> {
    let share = text.strip_suffix('%').and_then(|share| share.parse::<f64>().ok());
    share
        .filter(|share| (0.0..=100.0).contains(share))
        .map(|share| share / 100.0)
        .ok_or_else(|| NotAShare(text.to_owned()))
}

/// The name of a source, without spaces around it.
pub fn parse_source(text: &str) -> Result<String, NotASource> {
    let name = text.trim();
    if name.is_empty() || name.chars().count() > MAX_CHARS || !name.chars().all(is_printable) {
        return Err(NotASource);
    }
    Ok(name.to_owned())
}
