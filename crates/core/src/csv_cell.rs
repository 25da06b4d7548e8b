//! Cells of the CSV files that we write. Spreadsheet programs run some texts as formulas.

use std::borrow::Cow;

use crate::phone;

/// A cell that no spreadsheet program runs as a formula: it gets a leading `'` if it begins with `=`, `@`, a tab or a
/// return, or with `+` or `-` unless it is a phone number as we write it. `import` takes the `'` off again.
pub fn csv_cell(text: &str) -> Cow<'_, str> {
    let is_formula = match text.bytes().next() {
        Some(b'=' | b'@' | b'\t' | b'\r') => true,
        Some(b'+' | b'-') => !phone::is_e164(text),
        _ => false,
    };
    if is_formula { Cow::Owned(format!("'{text}")) } else { Cow::Borrowed(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_spreadsheet_would_run_gets_an_apostrophe_and_nothing_else_does() {
        for (text, cell) in [
            ("=1+2", "'=1+2"),
            ("=HYPERLINK(\"http://example.com\")", "'=HYPERLINK(\"http://example.com\")"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("\t=1", "'\t=1"),
            ("\r=1", "'\r=1"),
            ("+1+2", "'+1+2"),
            ("+14155550123 ", "'+14155550123 "),
            ("+14155550123;=1", "'+14155550123;=1"),
            ("-1", "'-1"),
            ("-14155550123", "'-14155550123"),
            ("+", "'+"),
        ] {
            assert_eq!(csv_cell(text), cell);
        }
        for text in
            ["", "+14155550123", "ada@example.com", "crm-sync", "1=1", " =1", "'=1", "2026-05-01", "ü"]
        {
            assert_eq!(csv_cell(text), text);
        }
    }
}
