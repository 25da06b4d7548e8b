//! Parsers for values on the command line, and their error messages.

use contactd_core::{Kind, Label, RootKey, Scope, Timestamp};
use contactd_import::{Encoding, Field, field_names};

pub(super) fn parse_delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"tab" | b"\\t" => Ok(b'\t'),
        [c] if (c.is_ascii_punctuation() || matches!(c, b'\t' | b' ')) && *c != b'"' => Ok(*c),
        _ => Err("write one character, such as ';' or '|', or the word tab".to_owned()),
    }
}

pub(super) fn parse_encoding(text: &str) -> Result<Encoding, String> {
    Encoding::named(text).ok_or_else(|| {
        "there is no such encoding; use a name such as utf-8, windows-1252, iso-8859-15, utf-16le or macintosh".to_owned()
    })
}

pub(super) fn parse_import(text: &str) -> Result<i64, String> {
    text.parse().map_err(|_| "write the number that `contactd imports` shows".to_owned())
}

pub(super) fn parse_kind(text: &str) -> Result<Kind, String> {
    Kind::ALL.into_iter().find(|kind| kind.name() == text).ok_or_else(|| "use phone or email".to_owned())
}

pub(super) fn parse_scope(text: &str) -> Result<Scope, String> {
    Scope::named(text).ok_or_else(|| format!("use {}", Scope::ALL.map(Scope::name).join(", ")))
}

pub(super) fn parse_label(text: &str) -> Result<Label, String> {
    Label::parse(text).ok_or_else(|| "use personal or work".to_owned())
}

pub(super) fn parse_time(text: &str) -> Result<Timestamp, String> {
    Timestamp::parse(text).ok_or_else(|| "write a date like 2026-05-01 or an RFC 3339 time".to_owned())
}

pub(super) fn parse_mapping(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((column, _)) if Field::parse(column).is_none() => {
            Err(format!("there is no column {column}; the columns are {}", field_names().join(", ")))
        }
        Some((column, header)) if !header.is_empty() => Ok((column.to_owned(), header.to_owned())),
        _ => Err("write it like profileUrl=\"LinkedIn URL\"".to_owned()),
    }
}

/// The keys in one value of `--root`.
#[derive(Clone, Debug)]
pub(super) struct GivenRoots(pub(super) Vec<RootKey>);

pub(super) fn parse_roots(text: &str) -> Result<GivenRoots, String> {
    match text.split_whitespace().map(str::parse).collect::<Result<Vec<RootKey>, _>>() {
        Ok(roots) if !roots.is_empty() => Ok(GivenRoots(roots)),
        Ok(_) => Err("write the key that `contactd audit root` printed".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

pub(super) fn parse_region(text: &str) -> Result<String, String> {
    match contactd_core::is_phone_region(text) {
        true => Ok(text.to_owned()),
        false => Err("write a country with two letters, such as US or DE".to_owned()),
    }
}
