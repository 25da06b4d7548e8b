//! The URL as text: trimming, and what may not stand inside.

use crate::Reason;

/// Trims both ends and refuses what no URL holds. What comes back has no control
/// characters, no white space, and no backslash before its query or fragment.
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
    // Without an early end, so that many bytes are looked at in one step.
    if text.bytes().fold(true, |good, b| good & b.is_ascii_graphic() & (b != b'\\')) {
        return Ok(());
    }
    let mut before_query = true;
    let mut refused = Ok(());
    for c in text.chars() {
        // A control character decides at once; the other faults only if there is none.
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

/// Where the first byte that `stops` is, or the end. Only ASCII bytes may stop, so that the text can be cut there.
pub(crate) fn end_before(text: &str, stops: impl Fn(u8) -> bool) -> usize {
    text.bytes().position(stops).unwrap_or(text.len())
}

/// Zero-width and direction marks that come along when text is copied.
fn is_invisible_mark(c: char) -> bool {
    matches!(c, '\u{200B}' | '\u{200E}' | '\u{200F}' | '\u{2060}' | '\u{FEFF}')
}
