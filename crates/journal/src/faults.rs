//! What can be wrong with a line, in words.

pub(crate) const NOT_A_LINE: &str = "this is not a valid journal line";
pub(crate) const CHANGED: &str = "this line, or the chain value of the line before it, was changed";

/// Line `seq` is where line `due` belongs.
pub(crate) fn expected(seq: u64, due: u64) -> String {
    format!("this is line {seq}, but line {due} was expected here")
}

/// Checkpoint `number` is where checkpoint `due` belongs.
pub(crate) fn wrong_number(number: u64, due: u64) -> String {
    format!("this is checkpoint {number}, but checkpoint {due} was expected here")
}

/// The lines `first` to `last` are not there.
pub(crate) fn missing(first: u64, last: u64) -> String {
    match last.saturating_sub(first) {
        0 => format!("line {first} is missing before this one"),
        _ => format!("lines {first} to {last} are missing before this one"),
    }
}
