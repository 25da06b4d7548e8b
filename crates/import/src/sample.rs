//! What is shown of the values in a column.

/// How many values of a column are shown.
pub(crate) const SAMPLES: usize = 3;

/// How much of a value is shown.
const MOST_CHARS: usize = 200;

/// A value as it is shown: without spaces around it, and shortened.
pub(crate) fn short(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().nth(MOST_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
