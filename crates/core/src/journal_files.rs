//! How the services read the journal. The journal crate implements these traits.

use std::fmt;
use std::io::{BufRead, Write};
use std::sync::Arc;

use crate::store::StoreError;
use crate::{AdminRecord, AuditPosition, AuditRecord, Timestamp, hex};

/// Is told how many lines are checked, and returns whether to continue.
pub type Seen<'a> = &'a mut dyn FnMut(u64) -> bool;

/// Read access to this node's journal: its lines, and the check that they are complete and unchanged.
pub trait JournalFiles: Send + Sync {
    /// The lines after a position. Lines that were changed or added by somebody else are left out.
    fn lines_after(&self, position: AuditPosition, roots: &Roots) -> Box<dyn JournalLines>;

    /// Checks every line, and that the journal still contains each of the `known` lines.
    fn verify(&self, known: &[KnownLine], roots: &Roots) -> Result<Verification, JournalError> {
        self.verify_watched(known, roots, &mut |_| true)
    }

    /// As [`verify`](Self::verify). Now and then, `seen` is told how many lines are checked; it returns whether to continue.
    /// If not, this fails with [`JournalError::Cancelled`].
    fn verify_watched(
        &self,
        known: &[KnownLine],
        roots: &Roots,
        seen: Seen<'_>,
    ) -> Result<Verification, JournalError>;

    /// The number of the oldest line that is still in the journal; `None` if there is none.
    fn first_line(&self) -> Result<Option<u64>, JournalError>;

    /// The last checkpoint that is on disk; `None` if there is none.
    fn head(&self, roots: &Roots) -> Result<Option<JournalHead>, JournalError>;

    /// The roots that the journal itself names, oldest first.
    fn roots(&self) -> Result<Vec<RootKey>, JournalError>;

    /// When the oldest line that is still in the journal was written.
    fn begins(&self) -> Result<Option<Timestamp>, JournalError>;

    /// The size of all files, in bytes.
    fn bytes(&self) -> Result<u64, JournalError>;

    /// Writes what an auditor needs to verify the lines of a period.
    fn prove(
        &self,
        since: Timestamp,
        until: Timestamp,
        roots: &Roots,
        out: &mut dyn Write,
    ) -> Result<ProofMade, JournalError>;

    /// The lines after a position that are signed, as they are written.
    fn signed_after(&self, position: AuditPosition, roots: &Roots) -> Box<dyn SignedLines>;

    /// The copies of all seals, with the numbers of their lines, in order. The lines themselves may have been removed.
    fn seals(&self) -> Result<Vec<(u64, String)>, JournalError>;

    /// Read access to a copy of a journal, of this node or of another one.
    fn of_copy(&self, copy: Arc<dyn JournalCopy>) -> Box<dyn CopiedFiles>;
}

/// Read access to a copy of a journal. Its methods are those of [`JournalFiles`]; nothing but public keys is used.
#[expect(missing_docs, reason = "they are documented there")]
pub trait CopiedFiles: Send + Sync {
    fn lines_after(&self, position: AuditPosition, roots: &Roots) -> Box<dyn JournalLines>;
    fn verify(&self, known: &[KnownLine], roots: &Roots) -> Result<Verification, JournalError> {
        self.verify_watched(known, roots, &mut |_| true)
    }
    fn verify_watched(
        &self,
        known: &[KnownLine],
        roots: &Roots,
        seen: Seen<'_>,
    ) -> Result<Verification, JournalError>;
    fn head(&self, roots: &Roots) -> Result<Option<JournalHead>, JournalError>;
    fn roots(&self) -> Result<Vec<RootKey>, JournalError>;
    fn begins(&self) -> Result<Option<Timestamp>, JournalError>;
    fn prove(
        &self,
        since: Timestamp,
        until: Timestamp,
        roots: &Roots,
        out: &mut dyn Write,
    ) -> Result<ProofMade, JournalError>;
}

/// A copy of a journal: its lines as they were written, in segments as its files had them.
pub trait JournalCopy: Send + Sync {
    /// The number of the first line of each segment, in order.
    fn segments(&self) -> Result<Vec<u64>, JournalError>;

    /// The lines of a segment from byte `offset` on, each with a newline. Fails with "not found" if there is no such segment
    /// any more.
    fn read(&self, segment: u64, offset: u64) -> Result<Box<dyn BufRead + Send>, JournalError>;

    /// The copies of the seals, each with a newline.
    fn seals(&self) -> Result<Vec<u8>, JournalError>;
}

/// Reads the signed lines of a journal in order, as they are written.
pub trait SignedLines: Send {
    /// The position after the last line that was read.
    fn position(&self) -> AuditPosition;

    /// The next line that is signed; `None` if there is none yet.
    fn read(&mut self) -> Result<Option<SignedLine>, JournalError>;
}

/// A line of a journal that is signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedLine {
    /// Its number.
    pub seq: u64,
    /// Whether it is the first line of a segment.
    pub begins_segment: bool,
    /// Whether it signs the lines before it.
    pub is_checkpoint: bool,
    /// Whether `seals.jsonl` has a copy of it, which outlasts it.
    pub is_seal: bool,
    /// If it says that lines are removed after their retention period: the last of them.
    pub retires: Option<u64>,
    /// Its text, without the newline.
    pub text: String,
}

/// What a proof contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProofMade {
    /// The number of its first line.
    pub first: u64,
    /// The number of its last line.
    pub last: u64,
    /// Whether the journal was signed up to the end of the period when it was made.
    pub is_complete: bool,
}

/// The public key with which a journal began. Everything in it can be verified with this key.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RootKey(pub [u8; 32]);

impl fmt::Display for RootKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(&self.0))
    }
}

impl fmt::Debug for RootKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RootKey({self})")
    }
}

impl std::str::FromStr for RootKey {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        hex::decode(text.trim())
            .map(Self)
            .ok_or("a root key is 64 hex digits, as `contactd audit root` prints it")
    }
}

impl serde::Serialize for RootKey {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The roots that a verification trusts, and where they come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roots {
    /// The roots, oldest first. Not used if they come from the journal itself.
    pub keys: Vec<RootKey>,
    /// Where they come from.
    pub source: RootSource,
}

/// Where trusted roots come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub enum RootSource {
    /// From whoever asked for the verification.
    Given,
    /// The store remembered them when the journal began.
    Remembered,
    /// The journal itself. Whoever replaced the whole journal also chose these.
    #[default]
    Journal,
}

impl Roots {
    /// Roots that somebody noted down.
    pub const fn given(keys: Vec<RootKey>) -> Self {
        Self { keys, source: RootSource::Given }
    }

    /// Roots that the store remembered; the journal's own if it remembered none.
    pub fn remembered(keys: Vec<RootKey>) -> Self {
        let source = if keys.is_empty() { RootSource::Journal } else { RootSource::Remembered };
        Self { keys, source }
    }
}

/// Reads the lines of a journal in order. Lines may be appended at the same time.
pub trait JournalLines: Send {
    /// The position after the last line that was read.
    fn position(&self) -> AuditPosition;

    /// The next complete line; `None` if there is none yet.
    fn read(&mut self) -> Result<Option<JournalLine>, JournalError>;
}

/// One line of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JournalLine {
    /// A request with a recognised token.
    Request(AuditRecord),
    /// An administrative action.
    Admin(AdminRecord),
    /// These lines say hit or miss, but nothing was disclosed.
    Undisclosed {
        /// The first of them.
        from: u64,
        /// The last.
        through: u64,
    },
    /// Lines up to this one are old enough to be removed, or are removed.
    Retired {
        /// The last of them.
        through: u64,
    },
    /// Any other line about the journal itself.
    Mark,
}

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

/// The chain value of a line: it links the line to the one before and identifies it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Chain(pub [u8; 16]);

impl Chain {
    /// The value before the first line.
    pub const START: Self = Self([0; 16]);

    /// Parses 32 lower-case hexadecimal digits, the form in which it is written.
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

/// A line at the end of a journal. If one that is signed is noted down elsewhere, it shows whether the journal was cut
/// short later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct JournalHead {
    /// Its number.
    pub seq: u64,
    /// Its chain value.
    pub chain: Chain,
    /// Its time.
    #[serde(rename = "time")]
    pub at: Timestamp,
}

/// The end of a journal as somebody noted it down: `SEQ:CHAIN`, or `SEQ:CHAIN:NODE` in a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotedHead {
    /// The number of the line.
    pub seq: u64,
    /// Its chain value.
    pub chain: Chain,
    /// The node whose journal it is, by its id or name.
    pub node: Option<String>,
}

impl std::str::FromStr for NotedHead {
    type Err = String;

    /// Parses what `audit head` printed: a line's number, its chain value and, in a cluster, the node.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = text.split(|c: char| c == ':' || c.is_whitespace()).filter(|word| !word.is_empty());
        let parsed = words.next().and_then(|seq| seq.parse().ok()).zip(words.next().and_then(Chain::parse));
        let node = words.next().map(str::to_owned);
        if parsed.is_some() && words.next().is_some() {
            return Err("these are several heads; give one, and check the others one by one".to_owned());
        }
        parsed.map(|(seq, chain)| Self { seq, chain, node }).ok_or_else(|| {
            format!(
                "`{text}` is not a head; write it as `contactd audit head` printed it, such as 41:9f86d081…"
            )
        })
    }
}

impl NotedHead {
    /// The line, which the journal must still contain.
    pub const fn known(&self) -> KnownLine {
        KnownLine { seq: self.seq, chain: self.chain, how: "was noted down" }
    }
}

/// A time in which no server was running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outage {
    /// The last line before it.
    pub from: Timestamp,
    /// When the next server started.
    pub until: Timestamp,
    /// Whether the server before it had stopped in order. Otherwise it was killed, or the machine failed.
    pub was_stopped: bool,
}

/// A line that was in the journal according to another source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownLine {
    /// Its number.
    pub seq: u64,
    /// Its chain value.
    pub chain: Chain,
    /// How it is known, such as "was noted down".
    pub how: &'static str,
}

/// The result of checking a journal.
#[derive(Clone, Debug, Default, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Verification {
    /// How many lines were checked.
    pub lines: u64,
    /// The number of the first line.
    pub first: Option<u64>,
    /// The last line, signed or not.
    pub head: Option<JournalHead>,
    /// The last line that is signed.
    pub signed: Option<JournalHead>,
    /// How many lines after it are not signed yet.
    pub unsigned: u64,
    /// How many of those the key in the data directory confirms. Without the key: none.
    pub confirmed: u64,
    /// The roots of the journal, oldest first.
    pub roots: Vec<RootKey>,
    /// Where the trusted roots come from.
    pub root_source: RootSource,
    /// Times in which no server was running.
    pub outages: Vec<Outage>,
    /// What is wrong, in order.
    #[serde(rename = "findings")]
    pub faults: Vec<JournalFault>,
    /// Remarks about things that are not wrong.
    pub notes: Vec<String>,
}

impl Verification {
    /// Whether nothing is wrong.
    pub fn is_whole(&self) -> bool {
        self.faults.is_empty()
    }
}

/// A fault in a journal.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct JournalFault {
    /// The name of the segment's file.
    pub file: String,
    /// The line in the file, counted from one; zero if the fault is about the whole file.
    pub line: u64,
    /// The number of the line, if it has one.
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
