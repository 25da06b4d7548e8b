//! File formats.

/// A format that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Comma-separated values with a header.
    Csv,
    /// One JSON object per line.
    Jsonl,
    /// Apache Parquet, with the same columns as CSV.
    Parquet,
    /// An Excel workbook, with the same columns as CSV in one of its sheets.
    Xlsx,
}
