//! Errors of reading files.

use std::io;
use std::path::PathBuf;

/// Why files cannot be imported, and what to do about it. It contains no data of a row.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// A file cannot be used.
    #[error("{0}")]
    Unusable(String),
    /// A required column is missing.
    #[error("no column is called {missing}; the columns are {}", listed(found))]
    MissingColumn {
        /// Its name, or two names of which one is needed.
        missing: &'static str,
        /// The columns of the file.
        found: Vec<String>,
        /// Columns that are missing, and the header that probably means each.
        suggested: Vec<(&'static str, String)>,
    },
    /// A required column is not in a mapping that names all columns to be used.
    #[error("the mapping names no column for {missing}; the columns are {}", listed(found))]
    NotMapped {
        /// Its name, or two names of which one is needed.
        missing: &'static str,
        /// The columns of the file.
        found: Vec<String>,
    },
    /// A column is mapped to a header that the file does not have.
    #[error(
        "{column} is mapped to {header}, but no column has that header; the columns are {}",
        listed(found)
    )]
    MappedHeader {
        /// The column of the import format.
        column: &'static str,
        /// The header it is mapped to.
        header: String,
        /// The columns of the file.
        found: Vec<String>,
    },
    /// Two columns have the name of one that is needed.
    #[error("two columns are called {name}; rename or remove one of them; the columns are {}", listed(found))]
    TwoColumns {
        /// The name.
        name: String,
        /// The columns of the file.
        found: Vec<String>,
    },
    /// No column of a list names people, numbers or addresses.
    #[error(
        "no line names anybody, and no column is called profileUrl, phone or email; the columns are {}; name one of them so",
        listed(found)
    )]
    NoSubject {
        /// The columns of the file.
        found: Vec<String>,
    },
    /// A column that was named is missing.
    #[error("no column is called {name}; the columns are {}", listed(found))]
    NoColumn {
        /// The name.
        name: String,
        /// The columns of the file.
        found: Vec<String>,
        /// The column that was probably meant.
        suggested: Option<String>,
    },
    /// A workbook has no sheet with the name that was asked for.
    #[error("the workbook has no such sheet; its sheets are {}", listed(found))]
    NoSheet {
        /// The names of its sheets.
        found: Vec<String>,
    },
    /// A sheet has no row.
    #[error("the sheet is empty; name another one, or its columns in the first row")]
    EmptySheet,
    /// The first line is already a row.
    #[error(
        "the first line holds data, not the names of the columns; write a line like profileUrl,phone,email above it"
    )]
    NoHeader,
    /// Rows do not say where they come from.
    #[error("there is no source column")]
    NoSource,
    /// Rejected rows would be written over something else.
    #[error("{} exists and holds something else than rejected rows; move it away, or choose another file for them", .0.display())]
    RejectsTaken(PathBuf),
    /// Rejected rows would be written over an input.
    #[error(
        "the rejected rows would be written to {}, which is one of the files to import; choose another file for them",
        .0.display()
    )]
    RejectsAreInput(PathBuf),
    /// Rejected rows would be written through a symbolic link.
    #[error("{} is a symbolic link, which is not followed; choose another file for the rejected rows", .0.display())]
    RejectsAreLink(PathBuf),
    /// Rejected rows cannot be written.
    #[error("cannot write the rejected rows to {}: {error}; choose another file for them", .path.display())]
    RejectsUnwritable {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
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
    /// An error about an uploaded file.
    #[error("{error}{advice}")]
    Advised {
        /// What is wrong.
        error: Box<FileError>,
        /// What to do about it.
        advice: String,
    },
    /// The import was cancelled.
    #[error("stopped; nothing was changed")]
    Cancelled,
}

/// How many columns a message names, and how much of each.
const MOST_NAMES: usize = 30;
const MOST_CHARS: usize = 40;

/// Names for a message, of which there may be very many.
pub fn listed(names: &[String]) -> String {
    let short = |name: &String| match name.char_indices().nth(MOST_CHARS) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.clone(),
    };
    let first = names.iter().take(MOST_NAMES).map(short).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(MOST_NAMES) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
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

    /// The error itself, without the file it is about.
    pub fn inner(&self) -> &Self {
        match self {
            Self::In { error, .. } | Self::Advised { error, .. } => error.inner(),
            error => error,
        }
    }

    /// The error of the system, if what failed is a file of this machine and not what is in one.
    pub fn fault_of_disk(&self) -> Option<&io::Error> {
        match self.inner() {
            // What is wrong with the content of a file has a text instead of a number.
            Self::Io { error, .. }
                if error.kind() == io::ErrorKind::StorageFull || error.raw_os_error().is_some() =>
            {
                Some(error)
            }
            Self::RejectsUnwritable { error, .. } => Some(error),
            _ => None,
        }
    }

    /// Whether its text begins with the name of a file.
    pub fn is_about_a_file(&self) -> bool {
        match self {
            Self::Advised { error, .. } => error.is_about_a_file(),
            error => matches!(error, Self::In { .. }),
        }
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
