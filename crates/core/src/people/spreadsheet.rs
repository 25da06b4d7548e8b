//! What a spreadsheet puts in the place of a value: error values, hash marks, formulas, rounded numbers.

/// The error values of spreadsheets.
const ERRORS: [&str; 12] = [
    "#N/A",
    "#REF!",
    "#NAME?",
    "#VALUE!",
    "#DIV/0!",
    "#NUM!",
    "#NULL!",
    "#SPILL!",
    "#CALC!",
    "#FIELD!",
    "#ERROR!",
    "#GETTING_DATA",
];

/// Whether this is what a spreadsheet wrote instead of the value. It is asked only about text that is not valid for its column.
pub(crate) fn is_notation(text: &str) -> bool {
    text.starts_with(['=', '\'']) || is_error_value(text) || is_rounded(text)
}

/// Whether this is an error value, or the hash marks of a column that is too narrow.
pub(crate) fn is_error_value(text: &str) -> bool {
    text.starts_with('#')
        && (text.bytes().all(|b| b == b'#') || ERRORS.iter().any(|error| error.eq_ignore_ascii_case(text)))
}

/// Whether this may be a date as a spreadsheet stores it: the number of days since 1900, perhaps with a time.
pub(crate) fn is_day_number(text: &str) -> bool {
    let (days, time) = text.split_once(['.', ',']).unwrap_or((text, ""));
    days.len() == 5 && is_digits(days) && is_digits(time)
}

/// Whether this is a number with an exponent, such as `1.41556E+10`, or with only zeros after the point, such as
/// `3012345678.0`: the digits of a phone number are lost, or one was added.
fn is_rounded(text: &str) -> bool {
    let number = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (number, exponent) = match number.split_once(['E', 'e']) {
        Some((number, exponent)) => (number, Some(exponent.strip_prefix(['+', '-']).unwrap_or(exponent))),
        None => (number, None),
    };
    let (whole, fraction) = number.split_once(['.', ',']).unwrap_or((number, ""));
    let has_number = !whole.is_empty() && is_digits(whole) && is_digits(fraction);
    match exponent {
        Some(exponent) => has_number && !exponent.is_empty() && is_digits(exponent),
        None => has_number && !fraction.is_empty() && fraction.bytes().all(|b| b == b'0'),
    }
}

fn is_digits(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_since_1900_are_recognised() {
        assert!(is_day_number("46143") && is_day_number("46143.5"));
        assert!(!is_day_number("2026") && !is_day_number("20260501") && !is_day_number("46143x"));
    }
}
