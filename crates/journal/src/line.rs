//! Reads lines.

mod plain;

use std::borrow::Cow;

use contactd_core::{
    AdminRecord, Asked, AuditOutcome, AuditRecord, Chain, RequestVia, RootKey, ShortDigest, Timestamp, hex,
};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use crate::chain::ChainKey;

/// Separates a line's text from its chain value.
pub(crate) const CHAIN_FIELD: &[u8] = b",\"chain\":\"";
/// The length of this field with its value and the closing brace.
pub(crate) const CHAIN_LEN: usize = CHAIN_FIELD.len() + 32 + "\"}".len();
/// Separates what a checkpoint signs from its signature.
pub(crate) const SIGNATURE_FIELD: &[u8] = b",\"sig\":\"";
/// The length of this field with its value and the closing quotation mark.
pub(crate) const SIGNATURE_LEN: usize = SIGNATURE_FIELD.len() + 128 + "\"".len();
/// The number of the line with the first checkpoint, in a journal that follows no other. It signs the line before it.
pub(crate) const FIRST_CHECKPOINT: u64 = 2;

/// A root, and the number of an epoch of its journal.
pub(crate) type Epoch = (RootKey, u64);

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its number, one more than the line before.
    pub seq: u64,
    /// The time of the request, the action or the mark.
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
    /// An administrative action.
    Admin(Box<AdminRecord>),
    /// Something about the journal itself.
    Mark(Mark),
}

/// Something the journal records about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "mark", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Mark {
    /// A journal begins here, in a segment of its own.
    Begun {
        /// Its root.
        root: RootKey,
        /// The last line of the journal before it, if there was one; otherwise zero.
        after: u64,
        /// The chain value of that line.
        previous: Chain,
        /// The root of that journal. Its keys are elsewhere or lost: it came from a backup.
        #[serde(skip_serializing_if = "Option::is_none")]
        old_root: Option<RootKey>,
    },
    /// A segment begins here.
    Opened {
        /// The number of the line before it.
        after: u64,
        /// The chain value of that line.
        previous: Chain,
        /// Lines up to this one were safely on disk. Later ones may be missing because the disk failed.
        #[serde(skip_serializing_if = "Option::is_none")]
        suspect_after: Option<u64>,
        /// The journal was not as the last server had left it: what was found.
        #[serde(skip_serializing_if = "Option::is_none")]
        broken: Option<String>,
    },
    /// A killed server left an unfinished line, which is not part of the journal.
    Recovered {
        /// The length of that line.
        torn_bytes: u64,
    },
    /// Lines can be written again. What the requests of lost lines asked for was not disclosed.
    Resumed {
        /// How many lines were lost.
        lost: u64,
    },
    /// These lines say hit or miss, but their requests were answered 503, because writing the lines took too
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
        /// Its chain value.
        #[serde(rename = "last")]
        chain: Chain,
    },
    /// Lines up to this one have been removed.
    Removed {
        /// The last of these lines.
        through: u64,
    },
    /// A server started.
    Started,
    /// The server stopped, in order.
    Stopped,
    /// Signs the lines before it.
    Checkpoint(Box<Checkpoint>),
    /// A checkpoint that ends its epoch.
    Seal(Box<Checkpoint>),
}

/// A signature of the lines since the last checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// The root of the journal.
    pub root: RootKey,
    /// The epoch whose key signs.
    pub epoch: u64,
    /// Its number, from one.
    pub number: u64,
    /// The chain value of the line before it.
    pub previous: Chain,
    /// The chain key of the lines since the last checkpoint, and of this one.
    #[serde(with = "hex")]
    pub key: [u8; 32],
    /// If the epoch ends here: the public key of the next one. Such a checkpoint is a seal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<RootKey>,
    /// The signature of the line's text up to it.
    #[serde(rename = "sig", deserialize_with = "hex::deserialize", skip_serializing)]
    pub signature: [u8; 64],
}

/// Why a checkpoint is not the one that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotDue {
    /// It is of another epoch.
    Epoch,
    /// The one with this number is due.
    Number(u64),
}

impl Checkpoint {
    /// The epoch whose key signs it.
    pub(crate) const fn epoch_named(&self) -> Epoch {
        (self.root, self.epoch)
    }

    /// The epoch of the checkpoint after it.
    pub(crate) fn epoch_after(&self) -> Epoch {
        (self.root, self.epoch.saturating_add(u64::from(self.next.is_some())))
    }

    /// Whether `seals.jsonl` holds a copy of it: it is a seal, or the first checkpoint of its journal.
    pub(crate) const fn is_copied(&self) -> bool {
        self.next.is_some() || (self.epoch == 1 && self.number == 1)
    }

    /// Whether it comes where its epoch and its number are `due`, as far as these are known. One of the `lines` that it
    /// signs may begin a journal: then the first checkpoint of that one is due.
    pub(crate) fn check_due<'a>(
        &self,
        due: (Option<Epoch>, Option<u64>),
        lines: impl IntoIterator<Item = &'a Line>,
    ) -> Result<(), NotDue> {
        let begins =
            |line: &Line| matches!(&line.entry, Entry::Mark(Mark::Begun { root, .. }) if *root == self.root);
        let (epoch, number) = match self.epoch == 1 && lines.into_iter().any(begins) {
            true => (Some(self.epoch_named()), Some(1)),
            false => due,
        };
        match number {
            _ if epoch != Some(self.epoch_named()) => Err(NotDue::Epoch),
            Some(number) if number != self.number => Err(NotDue::Number(number)),
            _ => Ok(()),
        }
    }
}

/// The fields of a request's line, and which of the other kinds a line is.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Written<'a> {
    seq: u64,
    #[serde(borrow)]
    time: &'a str,
    #[serde(borrow)]
    node: &'a str,
    #[serde(borrow)]
    request_id: Option<Cow<'a, str>>,
    given_id: Option<&'a str>,
    token: Option<&'a str>,
    #[serde(borrow)]
    operation: Option<Cow<'a, str>>,
    via: Option<&'a str>,
    profile: Option<&'a str>,
    value: Option<&'a str>,
    outcome: Option<&'a str>,
    reason: Option<&'a str>,
    place: Option<u32>,
    #[serde(default)]
    repeat: bool,
    count: Option<u64>,
    mark: Option<IgnoredAny>,
    actor: Option<IgnoredAny>,
    chain: &'a str,
}

impl Line {
    /// Parses a line without its newline; none if it is not valid.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        match plain::request(bytes) {
            Some(written) => Self::of(written, bytes),
            None => Self::of(serde_json::from_slice(bytes).ok()?, bytes),
        }
    }

    fn of(written: Written<'_>, bytes: &[u8]) -> Option<Self> {
        let (seq, at) = (written.seq, Timestamp::parse(written.time)?);
        let chain = Chain::parse(written.chain)?;
        let entry = if written.mark.is_some() {
            Entry::Mark(serde_json::from_slice(bytes).ok()?)
        } else if written.actor.is_some() {
            let (node, entry) = (written.node.to_owned(), serde_json::from_slice(bytes).ok()?);
            Entry::Admin(Box::new(AdminRecord { seq, node, entry }))
        } else {
            Entry::Request(written.request(at)?)
        };
        Some(Self { seq, at, entry, chain })
    }

    /// The checkpoint, if it is one.
    pub(crate) fn checkpoint(&self) -> Option<&Checkpoint> {
        match &self.entry {
            Entry::Mark(Mark::Checkpoint(signed) | Mark::Seal(signed)) => Some(signed),
            _ => None,
        }
    }

    /// If this line may begin a segment: the number and the chain value of the line before it.
    pub(crate) fn opening(&self) -> Option<(u64, Chain)> {
        match &self.entry {
            Entry::Mark(Mark::Begun { after, previous, .. } | Mark::Opened { after, previous, .. }) => {
                Some((*after, *previous))
            }
            _ => None,
        }
    }
}

impl Written<'_> {
    fn request(self, at: Timestamp) -> Option<AuditRecord> {
        let outcome = self.outcome.filter(|outcome| AuditOutcome::NAMES.contains(outcome))?;
        let request_id = match (self.request_id, self.count) {
            (Some(id), None) => id.into_owned(),
            (None, Some(_)) => String::new(),
            _ => return None,
        };
        Some(AuditRecord {
            seq: self.seq,
            at,
            node: self.node.to_owned(),
            request_id,
            given_id: optional(self.given_id, short)?,
            token: self.token?.to_owned(),
            operation: Asked::named(self.operation.as_deref()?)?,
            via: optional(self.via, RequestVia::named)?,
            place: self.place,
            profile: optional(self.profile, parse_digest)?,
            value: optional(self.value, short)?,
            outcome: outcome.to_owned(),
            reason: self.reason.map(str::to_owned),
            count: self.count.unwrap_or(u64::from(!self.repeat)),
        })
    }
}

/// An absent field is fine, a damaged one is not.
fn optional<T>(text: Option<&str>, parse: impl Fn(&str) -> Option<T>) -> Option<Option<T>> {
    match text {
        Some(text) => parse(text).map(Some),
        None => Some(None),
    }
}

fn short(text: &str) -> Option<ShortDigest> {
    Chain::parse(text).map(|chain| ShortDigest(chain.0))
}

fn parse_digest(text: &str) -> Option<(String, ShortDigest)> {
    let (key, digest) = text.split_once(':')?;
    Some((key.to_owned(), short(digest)?))
}

/// Whether a line's chain value is correct, where `before` is that of the previous line.
pub(crate) fn is_linked(key: &ChainKey, before: Chain, bytes: &[u8], chain: Chain) -> bool {
    bytes
        .len()
        .checked_sub(CHAIN_LEN)
        .is_some_and(|end| bytes[end..].starts_with(CHAIN_FIELD) && key.link(before, &bytes[..end]) == chain)
}

/// What a checkpoint line signs: its text up to the signature; none if the signature is not where it belongs.
pub(crate) fn signed_text(bytes: &[u8]) -> Option<&[u8]> {
    let end = bytes.len().checked_sub(CHAIN_LEN + SIGNATURE_LEN)?;
    bytes[end..].starts_with(SIGNATURE_FIELD).then_some(&bytes[..end])
}
