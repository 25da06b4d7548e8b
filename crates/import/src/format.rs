//! How a file of records is written.

/// The formats that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Comma-separated values with a header.
    Csv,
    /// A JSON object on each line.
    Jsonl,
    /// Apache Parquet, with the columns of a CSV.
    Parquet,
}
