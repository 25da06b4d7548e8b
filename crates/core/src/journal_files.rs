//! The journal's files, as the services need them. The journal crate implements these.

use std::fmt;

use crate::{AuditPosition, AuditRecord, Timestamp, hex};

/// The journal of this node, read: its lines, and the proof that they are complete and unchanged.
pub trait JournalFiles: Send + Sync {
    /// The fingerprint of the key that links the lines.
    fn key_id(&self) -> Result<String, JournalError>;

    /// The lines after a position.
    fn lines_after(&self, position: AuditPosition) -> Box<dyn JournalLines>;

    /// Checks every line; with lines known from elsewhere, that the journal still contains each of them.
    fn verify(&self, known: &[KnownLine]) -> Result<Verification, JournalError>;

    /// The last line; none if the journal is empty.
    fn head(&self) -> Result<Option<Head>, JournalError>;

    /// When the first line that is there was written.
    fn begins(&self) -> Result<Option<Timestamp>, JournalError>;

    /// How many bytes the files have.
    fn bytes(&self) -> Result<u64, JournalError>;
}

/// Lines of a journal, one after the other. Lines may be appended while this reads.
pub trait JournalLines: Send {
    /// The end of the last line that was read.
    fn position(&self) -> AuditPosition;

    /// The next whole line; none if there is none yet.
    fn read(&mut self) -> Result<Option<JournalLine>, JournalError>;
}

/// What a line means to a reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JournalLine {
    /// A request of a recognised token.
    Request(AuditRecord),
    /// These lines say hit or miss, and nothing was disclosed.
    Undisclosed {
        /// The first of them.
        from: u64,
        /// The last.
        through: u64,
    },
    /// Something else about the journal itself.
    Mark,
}

/// Why the journal could not be opened, read or written. The text holds nothing of a line.
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
    /// A segment is not as it was when it was read before.
    #[error("{file} is not as it was when it was indexed")]
    Changed {
        /// The file's name, without its directory.
        file: String,
    },
    /// Another process has the journal open for writing.
    #[error("another process is writing this journal; stop it first")]
    InUse,
    /// The key cannot be had, or is another one.
    #[error("{0}")]
    Key(String),
}

/// A line's link to the line before it, by which the line is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain(pub [u8; 16]);

impl Chain {
    /// The value before the first line.
    pub const START: Self = Self([0; 16]);

    /// Reads 32 hexadecimal digits in lower case, which is how it is written.
    pub fn parse(text: &str) -> Option<Self> {
        hex::decode(text).filter(|_| !text.bytes().any(|b| b.is_ascii_uppercase())).map(Self)
    }
}

impl fmt::Display for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(&self.0))
    }
}

impl serde::Serialize for Chain {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The last line of a journal. Noted down elsewhere, it reveals a journal that was cut short later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Head {
    /// Its number.
    pub seq: u64,
    /// Its link.
    pub chain: Chain,
    /// Its time.
    #[serde(rename = "time")]
    pub at: Timestamp,
}

/// A line that is known from elsewhere to have been in the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownLine {
    /// Its number.
    pub seq: u64,
    /// Its link.
    pub chain: Chain,
    /// Where it is known from, such as "was noted down".
    pub how: &'static str,
}

/// The result of checking a journal.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct Verification {
    /// Lines that were checked.
    pub lines: u64,
    /// The number of the first one.
    pub first: Option<u64>,
    /// The last one.
    pub head: Option<Head>,
    /// What is wrong, in order.
    #[serde(rename = "findings")]
    pub faults: Vec<JournalFault>,
    /// What is not wrong and worth knowing.
    pub notes: Vec<String>,
}

impl Verification {
    /// Whether nothing is wrong.
    pub fn is_whole(&self) -> bool {
        self.faults.is_empty()
    }
}

/// Something that is wrong with a journal.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct JournalFault {
    /// The name of the segment's file.
    pub file: String,
    /// The line in it, counted from one; zero if it is about the whole file.
    pub line: u64,
    /// The number of the line, where it has one.
    pub seq: Option<u64>,
    /// What is wrong with it.
    pub what: String,
}

impl fmt::Display for JournalFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file, self.what),
            line => write!(f, "{}, line {line}: {}", self.file, self.what),
        }
    }
}
