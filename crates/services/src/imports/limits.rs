//! What is allowed in an import, as people write it.

use std::str::FromStr;

use contactd_core::{MOST_NAME_CHARS, is_name};

use crate::imports::MaxRejects;

impl FromStr for MaxRejects {
    type Err = String;

    /// A share, such as `10%`, or a number of rows.
    fn from_str(text: &str) -> Result<Self, String> {
        let limit = match text.strip_suffix('%') {
            Some(share) => share_of(share.trim()).map(Self::Share),
            None => text.parse().ok().map(Self::Rows),
        };
        limit.ok_or_else(|| format!("`{text}` is neither a share like 10% nor a number of rows"))
    }
}

/// A share of details, such as `20%`.
pub fn parse_share(text: &str) -> Result<f64, String> {
    text.strip_suffix('%')
        .and_then(share_of)
        .ok_or_else(|| format!("`{text}` is not a share: write a number from 0 to 100 and %, like 20%"))
}

fn share_of(percent: &str) -> Option<f64> {
    percent.parse::<f64>().ok().filter(|share| (0.0..=100.0).contains(share)).map(|share| share / 100.0)
}

/// The name of a source, without spaces around it.
pub fn parse_source(text: &str) -> Result<String, String> {
    let name = text.trim();
    if !is_name(name) {
        return Err(format!("a name has 1 to {MOST_NAME_CHARS} printable characters"));
    }
    Ok(name.to_owned())
}
