//! The columns of the import format.

pub use contactd_core::COLUMNS;

pub(crate) const PHONE: usize = 1;
pub(crate) const EMAIL: usize = 2;
pub(crate) const PHONE_LABEL: usize = 3;
pub(crate) const EMAIL_LABEL: usize = 4;
pub(crate) const SOURCE: usize = 10;

/// The position of a column in [`COLUMNS`].
pub(crate) fn position(column: &str) -> Option<usize> {
    COLUMNS.iter().position(|name| *name == column)
}

/// What a rejects file says about each row, before the row itself. An import ignores it.
pub(crate) const REJECTED: [&str; 3] = ["rejectedLine", "rejectedColumn", "rejectedReason"];

/// In a rejects file of JSON lines: the text of a line that is not an object. An import reads that text.
pub(crate) const REJECTED_ROW: &str = "rejectedRow";
