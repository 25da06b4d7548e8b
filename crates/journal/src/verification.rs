//! What a check of a journal is given, and what it finds.

use std::fmt;

use contactd_core::{Chain, RootKey, Timestamp};

/// How many faults are listed.
const LISTED_FAULTS: usize = 20;

/// Is told how many lines are checked, and returns whether to continue.
pub type Seen<'a> = &'a mut dyn FnMut(u64) -> bool;

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

    /// The result in words, line by line.
    pub fn words(&self) -> Vec<String> {
        let mut words: Vec<String> = self.remarks().iter().map(|note| format!("note: {note}")).collect();
        words.extend(self.faults.iter().take(LISTED_FAULTS).map(|fault| format!("WRONG {fault}")));
        if self.faults.len() > LISTED_FAULTS {
            words.push(format!("and {} more; --json lists all of them", self.faults.len() - LISTED_FAULTS));
        }
        words.push(match (self.is_whole(), &self.head) {
            (true, Some(head)) => {
                format!("whole: {}, to line {} of {}", Lines(self.lines), head.seq, head.at)
            }
            (true, None) => "whole: the journal is empty".to_owned(),
            (false, _) => format!("NOT whole: {} checked", Lines(self.lines)),
        });
        self.signature(&mut words);
        words
    }

    /// Remarks about things that are not wrong, and the times in which no server was running.
    pub fn remarks(&self) -> Vec<String> {
        let outage = |outage: &Outage| {
            let how = match outage.was_stopped {
                true => "the server was stopped",
                false => "the server was not stopped in order",
            };
            format!("no service from {} to {}: {how}", outage.from, outage.until)
        };
        self.notes.iter().cloned().chain(self.outages.iter().map(outage)).collect()
    }

    /// Up to where the journal is signed, and who says that the signer is the right one.
    fn signature(&self, words: &mut Vec<String>) {
        if let Some(signed) = &self.signed {
            words.push(format!("signed: to line {} of {}", signed.seq, signed.at));
        }
        if self.unsigned > 0 {
            let how = match self.unsigned == self.confirmed {
                true => "the key in keys/ confirms them",
                false => "nothing here confirms them",
            };
            words.push(format!("not signed yet: {} after that; {how}", Lines(self.unsigned)));
        }
        for root in &self.roots {
            let source = match self.root_source {
                RootSource::Given => "given with --root",
                RootSource::Remembered => "remembered by the store; give the one you noted down with --root",
                RootSource::Journal => {
                    "taken from the journal itself, which proves little: give the one you noted down with --root"
                }
            };
            words.push(format!("root: {root} ({source})"));
        }
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

/// A count of lines.
struct Lines(u64);

impl fmt::Display for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            1 => f.write_str("1 line"),
            count => write!(f, "{count} lines"),
        }
    }
}
