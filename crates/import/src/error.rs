//! Why files cannot be imported.

use std::io;

use contactd_core::services::RowsError;

/// Why files cannot be imported, and what to do about it. It holds nothing of a row.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The files were named in a way that cannot be meant.
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
        /// The system's error.
        error: io::Error,
    },
    /// One of the files is at fault.
    #[error("{file}: {error}")]
    In {
        /// The file, as people know it.
        file: String,
        /// What is wrong with it.
        error: Box<FileError>,
    },
    /// It was asked to stop.
    #[error("stopped; nothing was changed")]
    Cancelled,
}

impl FileError {
    pub(crate) fn unusable(what: impl Into<String>) -> Self {
        Self::Unusable(what.into())
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

/// Says what was tried when the system refused it.
pub(crate) trait Tried<T> {
    fn tried(self, what: &str) -> Result<T, FileError>;
}

impl<T, E: Into<io::Error>> Tried<T> for Result<T, E> {
    fn tried(self, what: &str) -> Result<T, FileError> {
        self.map_err(|error| FileError::Io { what: what.to_owned(), error: error.into() })
    }
}
