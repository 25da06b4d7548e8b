//! Reads lines.

use contactd_core::{AuditOutcome, AuditRecord, Chain, Kind, ProfileDigest, Timestamp};
use serde::Deserialize;

use crate::chain::ChainKey;

/// Separates a line's text from its chain value.
pub(crate) const CHAIN_FIELD: &[u8] = b",\"chain\":\"";
/// The length of this field with its value and the closing brace.
pub(crate) const CHAIN_LEN: usize = CHAIN_FIELD.len() + 32 + "\"}".len();

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its number, one more than the line before.
    pub seq: u64,
    /// The time of the request or of the mark.
    pub at: Timestamp,
    /// Its content.
    pub entry: Entry,
    /// Its link to the line before.
    pub chain: Chain,
}

/// The content of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A request with a recognised token.
    Request(AuditRecord),
    /// Something about the journal itself.
    Mark(Mark),
}

/// Something the journal records about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mark {
    /// A segment begins here.
    Opened {
        /// The chain value of the line before it.
        previous: Chain,
        /// Lines up to this one were safely on disk. Later ones may be missing because the disk failed.
        suspect_after: Option<u64>,
    },
    /// A killed server left an unfinished line, which was cut off.
    Recovered {
        /// The length of that line.
        torn_bytes: u64,
    },
    /// Lines can be written again. What the requests of lost lines asked for was not disclosed.
    Resumed {
        /// How many lines were lost.
        lost: u64,
    },
    /// These lines say hit or miss, but their requests were answered 500, because writing the lines took too
    /// long or may have failed. Nothing was disclosed.
    Undisclosed {
        /// The first line.
        from: u64,
        /// The last line.
        through: u64,
    },
    /// Lines up to this one are old enough to be removed.
    Retired {
        /// The last of these lines.
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
    /// Parses a line without its newline; none if it is not valid.
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

/// Whether a line's chain value is correct, where `before` is that of the previous line.
pub(crate) fn is_linked(key: &ChainKey, before: Chain, bytes: &[u8], chain: Chain) -> bool {
    bytes.len().checked_sub(CHAIN_LEN).is_some_and(|end| {
        bytes[end..].starts_with(CHAIN_FIELD)
            && key.link(before, &bytes[..end], &mut Vec::with_capacity(end + 16)) == chain
    })
}
