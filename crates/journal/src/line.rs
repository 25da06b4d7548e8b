//! Lines, as they are read.

use contactd_core::{AuditOutcome, AuditRecord, Chain, Kind, ProfileDigest, Timestamp};
use serde::Deserialize;

use crate::chain::ChainKey;

/// What stands between a line's text and its chain value.
pub(crate) const CHAIN_FIELD: &[u8] = b",\"chain\":\"";
/// How much of a line that and the value take, to the closing brace.
pub(crate) const CHAIN_LEN: usize = CHAIN_FIELD.len() + 32 + "\"}".len();

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its number, one more than that of the line before.
    pub seq: u64,
    /// When its request was taken up, or it was made.
    pub at: Timestamp,
    /// What it says.
    pub entry: Entry,
    /// Its link to the line before.
    pub chain: Chain,
}

/// What a line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A request of a recognised token.
    Request(AuditRecord),
    /// Something about the journal itself.
    Mark(Mark),
}

/// What the journal says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mark {
    /// A segment begins here.
    Opened {
        /// The chain value of the line before it.
        previous: Chain,
        /// Lines up to this one were safely on disk. Those behind it may be missing, because the disk failed.
        suspect_after: Option<u64>,
    },
    /// A server that was killed had left so many bytes of an unfinished line, which were cut off.
    Recovered {
        /// How many.
        torn_bytes: u64,
    },
    /// Lines can be written again, after so many could not. What those asked for was not disclosed.
    Resumed {
        /// How many.
        lost: u64,
    },
    /// These lines say hit or miss, and were answered 500: writing them took too long, or may not have worked. Nothing was
    /// disclosed.
    Undisclosed {
        /// The first of them.
        from: u64,
        /// The last.
        through: u64,
    },
    /// Lines up to this one are old enough to be removed.
    Retired {
        /// The last one.
        through: u64,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Written<'a> {
    seq: u64,
    #[serde(borrow)]
    time: &'a str,
    #[serde(borrow)]
    node: &'a str,
    request_id: Option<String>,
    token: Option<&'a str>,
    operation: Option<&'a str>,
    profile: Option<&'a str>,
    outcome: Option<&'a str>,
    reason: Option<&'a str>,
    mark: Option<&'a str>,
    previous: Option<&'a str>,
    suspect_after: Option<u64>,
    torn_bytes: Option<u64>,
    lost: Option<u64>,
    from: Option<u64>,
    through: Option<u64>,
    chain: &'a str,
}

impl Line {
    /// Reads a line without its newline. None where it is not one.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let written: Written<'_> = serde_json::from_slice(bytes).ok()?;
        let at = Timestamp::parse(written.time)?;
        let entry = match written.mark {
            Some(_) => Entry::Mark(written.mark()?),
            None => Entry::Request(written.request(at)?),
        };
        Some(Self { seq: written.seq, at, entry, chain: Chain::parse(written.chain)? })
    }
}

impl Written<'_> {
    fn request(&self, at: Timestamp) -> Option<AuditRecord> {
        let outcome = self.outcome.filter(|outcome| AuditOutcome::NAMES.contains(outcome))?;
        let profile = match self.profile {
            Some(text) => Some(parse_digest(text)?),
            None => None,
        };
        Some(AuditRecord {
            seq: self.seq,
            at,
            node: self.node.to_owned(),
            request_id: self.request_id.clone()?,
            token: self.token?.to_owned(),
            operation: Kind::ALL.into_iter().find(|kind| Some(kind.name()) == self.operation)?,
            profile,
            outcome: outcome.to_owned(),
            reason: self.reason.map(str::to_owned),
        })
    }

    fn mark(&self) -> Option<Mark> {
        Some(match self.mark? {
            "opened" => {
                Mark::Opened { previous: Chain::parse(self.previous?)?, suspect_after: self.suspect_after }
            }
            "recovered" => Mark::Recovered { torn_bytes: self.torn_bytes? },
            "resumed" => Mark::Resumed { lost: self.lost? },
            "undisclosed" => Mark::Undisclosed { from: self.from?, through: self.through? },
            "retired" => Mark::Retired { through: self.through? },
            _ => return None,
        })
    }
}

fn parse_digest(text: &str) -> Option<(String, ProfileDigest)> {
    let (key, digest) = text.split_once(':')?;
    Some((key.to_owned(), ProfileDigest(Chain::parse(digest)?.0)))
}

/// Whether a line's chain value is the right one behind `before`.
pub(crate) fn is_linked(key: &ChainKey, before: Chain, bytes: &[u8], chain: Chain) -> bool {
    bytes.len().checked_sub(CHAIN_LEN).is_some_and(|end| {
        bytes[end..].starts_with(CHAIN_FIELD)
            && key.link(before, &bytes[..end], &mut Vec::with_capacity(end + 16)) == chain
    })
}
