//! A row of any format, and converting it to a profile with details.

use csv::ByteRecord;

/// How much of a file is read at a time.
pub(crate) const BUFFER: usize = 256 * 1024;

/// The maximum length of a row. Anything longer is not a row but a file of another kind.
pub(crate) const MAX_ROW_BYTES: u64 = 16 << 20;

/// One row as it is in the file.
pub struct Row {
    /// The line it begins on, or in a Parquet file its number.
    pub line: u64,
    /// Its content.
    pub content: Content,
}

/// The content of a row.
pub enum Content {
    /// Fields of a CSV or Parquet file.
    Fields(ByteRecord),
    /// A JSON object.
    Json(Vec<u8>),
}

impl Row {
    /// Its length in bytes.
    pub(crate) fn bytes(&self) -> usize {
        match &self.content {
            Content::Fields(fields) => fields.as_slice().len(),
            Content::Json(text) => text.len(),
        }
    }
}

/// A whole number as text without a decimal point: `90.0` is `90`. Otherwise the zero would be read as a digit
/// of a phone number.
pub(crate) fn whole(number: Option<f64>) -> Option<String> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    number.and_then(|number| whole_below(number, EXACT))
}

/// The same for a number type that is exact only below a limit.
pub(crate) fn whole_below(number: f64, exact: f64) -> Option<String> {
    (number.fract() == 0.0 && number.abs() < exact).then(|| format!("{number:.0}"))
}
