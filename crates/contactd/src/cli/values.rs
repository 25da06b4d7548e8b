//! Parsers for values on the command line, and their error messages.

use contactd_core::services::MaxRejects;
use contactd_core::{Chain, DateFormat, Kind, Label, NotedHead, Timestamp};
use contactd_import::COLUMNS;

/// Parses the limit of rejected rows: a share or a number.
/// A share of details, such as `20%`.
pub(super) fn parse_share(text: &str) -> Result<f64, String> {
    let share = text.strip_suffix('%').and_then(|share| share.parse::<f64>().ok());
    share
        .filter(|share| (0.0..=100.0).contains(share))
        .map(|share| share / 100.0)
        .ok_or_else(|| format!("`{text}` is not a share: write a number from 0 to 100 and %, like 20%"))
}

pub(super) fn parse_max_rejects(text: &str) -> Result<MaxRejects, String> {
    let wrong = || format!("`{text}` is neither a share like 10% nor a number of rows");
    match text.strip_suffix('%') {
        Some(share) => match share.trim().parse::<f64>() {
            Ok(share) if (0.0..=100.0).contains(&share) => Ok(MaxRejects::Share(share / 100.0)),
            _ => Err(wrong()),
        },
        None => text.parse().map(MaxRejects::Rows).map_err(|_| wrong()),
    }
}

/// Parses what `audit head` printed: a line's number, its chain value and, for another node of a cluster, the node.
pub(super) fn parse_head(text: &str) -> Result<NotedHead, String> {
    let mut words = text.split(|c: char| c == ':' || c.is_whitespace()).filter(|word| !word.is_empty());
    let parsed = words.next().and_then(|seq| seq.parse().ok()).zip(words.next().and_then(Chain::parse));
    let node = words.next().map(str::to_owned);
    parsed.map(|(seq, chain)| NotedHead { seq, chain, node }).ok_or_else(|| {
        format!("`{text}` is not a head; write it as `contactd audit head` printed it, such as 41:9f86d081…")
    })
}

pub(super) fn parse_date_format(text: &str) -> Result<DateFormat, String> {
    DateFormat::parse(text).map_err(|error| error.to_string())
}

pub(super) fn parse_delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"tab" | b"\\t" => Ok(b'\t'),
        [c] if (c.is_ascii_punctuation() || matches!(c, b'\t' | b' ')) && *c != b'"' => Ok(*c),
        _ => Err("write one character, such as ';' or '|', or the word tab".to_owned()),
    }
}

pub(super) fn parse_import(text: &str) -> Result<i64, String> {
    text.parse().map_err(|_| "write the number that `contactd imports` shows".to_owned())
}

pub(super) fn parse_kind(text: &str) -> Result<Kind, String> {
    Kind::ALL.into_iter().find(|kind| kind.name() == text).ok_or_else(|| "use phone or email".to_owned())
}

pub(super) fn parse_label(text: &str) -> Result<Label, String> {
    Label::parse(text).ok_or_else(|| "use personal or work".to_owned())
}

pub(super) fn parse_time(text: &str) -> Result<Timestamp, String> {
    Timestamp::parse(text).ok_or_else(|| "write a date like 2026-05-01 or an RFC 3339 time".to_owned())
}

pub(super) fn parse_mapping(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((column, _)) if !COLUMNS.contains(&column) => {
            Err(format!("there is no column {column}; the columns are {}", COLUMNS.join(", ")))
        }
        Some((column, header)) if !header.is_empty() => Ok((column.to_owned(), header.to_owned())),
        _ => Err("write it like profileUrl=\"LinkedIn URL\"".to_owned()),
    }
}

pub(super) fn parse_name(text: &str) -> Result<String, String> {
    const MAX_CHARS: usize = 100;
    let name = text.trim();
    if name.is_empty() || name.chars().count() > MAX_CHARS || name.chars().any(char::is_control) {
        return Err(format!("a name has 1 to {MAX_CHARS} printable characters"));
    }
    Ok(name.to_owned())
}

pub(super) fn parse_region(text: &str) -> Result<String, String> {
    match contactd_core::is_phone_region(text) {
        true => Ok(text.to_owned()),
        false => Err("write a country with two letters, such as US or DE".to_owned()),
    }
}
