//! Files of contact records: reading them, checking them on all cores, sorting them into the store's order.
//!
//! [`Files`] are CSV, JSON lines and Parquet files, plain or compressed, and Excel workbooks, for an import into any store. It prints nothing, keeps no global state, reports its
//! progress to its caller, and stops when it is cancelled, even while it waits for input. [`UploadedFiles`] says what such a
//! file holds, and what an import would do with its first rows.

mod columns;
mod countries;
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
mod mapping;
mod packed;
mod parquet_memory;
mod parquet_rows;
mod parquet_samples;
mod parquet_writer;
mod read_row;
mod rejects;
mod rows;
mod sample;
mod seen;
mod sort;
mod source;
mod subject_list;
mod suggest;
mod suppressed;
mod table;
mod table_writer;
mod uploaded;
mod uploaded_file;
mod xlsx;
mod xml;
mod zip;
mod zip_writer;

pub use columns::COLUMNS;
pub use encoding::Encoding;
pub use error::{FileError, listed};
pub use files::{Files, Input};
pub use format::Format;
pub use mapping::{Field, field_names};
pub use rejects::Rejects;
pub use rows::{Content, Row};
pub use source::{InputRead, Line, ReadRows, RecordBatch, RejectedRow, RowChecks, Warning};
pub use subject_list::SubjectList;
pub use table::{Table, TableColumn};
pub use table_writer::TableWriter;
pub use uploaded::UploadedFiles;
pub use uploaded_file::{
    FileColumn, FileShape, NotLoaded, Preview, PreviewedRow, ReadOptions, UploadedFile, Verdict,
};
