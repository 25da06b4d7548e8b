//! Why the journal failed.

use contactd_core::store::StoreError;

/// Why the journal could not be opened, read or written. The text contains nothing from a line.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// A file could not be read or written.
    #[error("{what} {file}: {error}")]
    File {
        /// What was tried, such as "cannot read".
        what: &'static str,
        /// The file's name, without its directory.
        file: String,
        /// The system's error.
        error: std::io::Error,
    },
    /// A segment has changed since it was last read.
    #[error("{file} is not as it was when it was indexed")]
    Changed {
        /// The file's name, without its directory.
        file: String,
    },
    /// Another process has the journal open for writing.
    #[error("another process is writing this journal; stop it first")]
    InUse,
    /// The key is not available, or is the wrong one.
    #[error("{0}")]
    Key(String),
    /// Whoever asked for it wants it no longer.
    #[error("stopped")]
    Cancelled,
    /// The store that holds a copy failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}
