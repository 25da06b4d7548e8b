//! The URL as text: trimming, and refusing characters that are not allowed.

use crate::Reason;

/// Trims both ends and refuses characters that a URL cannot contain. The result has no control
/// characters, no white space, and no backslash before the query or fragment.
pub(crate) fn clean(input: &str, max_chars: usize) -> Result<&str, Reason> {
    let text = input.trim_matches(|c: char| c.is_whitespace() || is_invisible_mark(c));
    if text.is_empty() {
        return Err(Reason::Empty);
    }
    if text.len() > max_chars && text.chars().nth(max_chars).is_some() {
        return Err(Reason::TooLong);
    }
    refuse_inside(text)?;
    Ok(text)
}

fn refuse_inside(text: &str) -> Result<(), Reason> {
    // No early exit, so that the compiler can vectorise the loop.
    if text.bytes().fold(true, |good, b| good & b.is_ascii_graphic() & (b != b'\\')) {
        return Ok(());
    }
    let mut before_query = true;
    let mut refused = Ok(());
    for c in text.chars() {
        // A control character takes precedence over the other faults.
        if c.is_control() || is_invisible_mark(c) {
            return Err(Reason::ControlChar);
        }
        before_query &= c != '?' && c != '#';
        if c.is_whitespace() || (c == '\\' && before_query) {
            refused = Err(Reason::NotAUrl);
        }
    }
    refused
}

/// The position of the first byte for which `stops` is true, or the end of the text.
/// `stops` must only match ASCII bytes, so that the text can be split there.
pub(crate) fn end_before(text: &str, stops: impl Fn(u8) -> bool) -> usize {
    text.bytes().position(stops).unwrap_or(text.len())
}

/// Zero-width and direction marks, which are often copied along with text.
fn is_invisible_mark(c: char) -> bool {
    matches!(c, '\u{200B}' | '\u{200E}' | '\u{200F}' | '\u{2060}' | '\u{FEFF}')
}
