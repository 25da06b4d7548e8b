//! Which characters a name may have.

/// Whether a character can be part of a name. Control characters cannot be seen, and marks of direction make a name look like
/// another one.
pub fn is_printable(c: char) -> bool {
    let turns_text = matches!(
        c,
        '\u{061C}' | '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}'
    );
    !c.is_control() && !turns_text
}
