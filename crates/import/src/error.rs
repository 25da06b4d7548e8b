//! Errors of reading files.

use std::io;

use contactd_core::services::RowsError;

/// Why files cannot be imported, and what to do about it. It contains no data of a row.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The arguments contradict each other.
    #[error("{0}")]
    Usage(String),
    /// A file cannot be used.
    #[error("{0}")]
    Unusable(String),
    /// A file cannot be read or written.
    #[error("{what}: {error}")]
    Io {
        /// What was tried.
        what: String,
        /// The error of the system.
        error: io::Error,
    },
    /// An error in one of the files.
    #[error("{file}: {error}")]
    In {
        /// The name of the file in messages.
        file: String,
        /// What is wrong with it.
        error: Box<FileError>,
    },
    /// The import was cancelled.
    #[error("stopped; nothing was changed")]
    Cancelled,
}

impl FileError {
    pub(crate) fn unusable(what: impl Into<String>) -> Self {
        Self::Unusable(what.into())
    }

    /// A thread of the import has panicked.
    pub(crate) fn fault() -> Self {
        Self::unusable("a fault of the program; nothing was changed. Please report it")
    }

    /// The same error, about this file.
    pub(crate) fn of(self, file: &str) -> Self {
        Self::In { file: file.to_owned(), error: Box::new(self) }
    }
}

impl From<FileError> for RowsError {
    fn from(error: FileError) -> Self {
        Self::new(error)
    }
}

/// Adds to a system error what was tried.
pub(crate) trait Tried<T> {
    fn tried(self, what: &str) -> Result<T, FileError>;
}

impl<T, E: Into<io::Error>> Tried<T> for Result<T, E> {
    fn tried(self, what: &str) -> Result<T, FileError> {
        self.map_err(|error| FileError::Io { what: what.to_owned(), error: error.into() })
    }
}
