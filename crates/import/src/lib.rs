//! Files of contact records: reading them, checking them on all cores, sorting them into the store's order.
//!
//! [`Files`] are CSV, JSON lines and Parquet files, plain or compressed, for an import into any store. It prints nothing, keeps no global state, reports its
//! progress to its caller, and stops when it is cancelled, even while it waits for input. [`UploadedFiles`] says what such a
//! file holds, and what an import would do with its first rows.

mod columns;
mod csv_rows;
mod dialect;
mod digests;
mod encoding;
mod error;
mod files;
mod format;
mod header;
mod input;
mod joined;
mod json_rows;
mod layout;
mod load;
mod packed;
mod parquet_memory;
mod parquet_rows;
mod parquet_samples;
mod read_row;
mod rejects;
mod rows;
mod sample;
mod seen;
mod sort;
mod source;
mod suggest;
mod suppressed;
mod uploaded;
mod uploaded_file;

pub use columns::COLUMNS;
pub use csv_rows::CsvRows;
pub use error::FileError;
pub use files::{Files, Input};
pub use format::Format;
pub use rejects::Rejects;
pub use rows::{Content, Row};
pub use source::{InputRead, Line, ReadRows, RecordBatch, RejectedRow, RowChecks, Warning};
pub use uploaded::UploadedFiles;
pub use uploaded_file::{FileColumn, FileShape, NotLoaded, PreviewedRow, ReadOptions, UploadedFile, Verdict};
