//! Cells of the CSV files that we write, so that a spreadsheet does not run them as formulas.
//!
//! A cell that begins with `=`, `@`, a tab or a return, or with `+` or `-` unless it is a phone number in E.164 form, gets a
//! leading `'`. So does a cell that begins with `'` before one of these, so that [`unmarked`] gives back every text unchanged.

use std::borrow::Cow;

use crate::people::phone::is_e164;

/// The text as it is written into a cell.
pub fn csv_cell(text: &str) -> Cow<'_, str> {
    if begins_formula(text.trim_start_matches('\'')) && !is_e164(text) {
        Cow::Owned(format!("'{text}"))
    } else {
        Cow::Borrowed(text)
    }
}

/// A row of cells that [`csv_cell`] marks, with its line end. Cells with commas, quotes or line ends are quoted.
pub fn csv_row<T: AsRef<str>>(cells: impl IntoIterator<Item = T>) -> String {
    let mut row = String::new();
    for (at, cell) in cells.into_iter().enumerate() {
        if at > 0 {
            row.push(',');
        }
        let cell = csv_cell(cell.as_ref());
        if cell.contains([',', '"', '\n', '\r']) {
            row.push('"');
            row.push_str(&cell.replace('"', "\"\""));
            row.push('"');
        } else {
            row.push_str(&cell);
        }
    }
    row.push('\n');
    row
}

/// The text of a cell that [`csv_cell`] wrote: without the `'` before what a spreadsheet takes for a formula.
pub fn unmarked(cell: &str) -> &str {
    match cell.strip_prefix('\'') {
        Some(text) if begins_formula(text.trim_start_matches('\'')) => text,
        _ => cell,
    }
}

fn begins_formula(text: &str) -> bool {
    text.starts_with(['=', '@', '\t', '\r', '+', '-'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_quotes_what_would_end_a_cell_and_marks_formulas() {
        assert_eq!(
            csv_row(["a", "", "b,c", "say \"hi\"", "=1+1", "two\nlines"]),
            "a,,\"b,c\",\"say \"\"hi\"\"\",'=1+1,\"two\nlines\"\n"
        );
    }

    #[test]
    fn every_text_comes_back_unchanged() {
        for start in [
            "",
            "'",
            "''",
            "=",
            "'=",
            "''=",
            "+",
            "'+",
            "-",
            "@",
            "\t",
            "\r",
            "+14155550123",
            "'+14155550123",
        ] {
            for end in ["", "x", "'", "="] {
                let text = format!("{start}{end}");
                assert_eq!(unmarked(&csv_cell(&text)), text);
            }
        }
    }
}
