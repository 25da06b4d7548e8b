//! What a node copies from the database into its own files.
//!
//! Engines do not know each other: the one that is the source of truth hands out these types, and the local one takes them.
//! Numbers of kinds and labels, times and ids are those of the tables, which are the same in both.

use sha2::{Digest, Sha256};

use crate::store::place::place_of;
use crate::store::sealing::{BoundRow, SealedChange};
use crate::store::{EntityRow, EntityTable};

/// A change of the source of truth: its number, and a random id that says in which history it has that number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangePoint {
    /// The number; 0 before the first change.
    pub number: i64,
    /// The id; empty before the first change.
    pub id: Vec<u8>,
}

/// A detail. It has no `Debug`, because it holds personal data.
#[derive(Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the columns of the table")]
pub struct CopiedDetail {
    pub id: i64,
    pub profile: String,
    pub kind: i64,
    pub label: i64,
    pub confidence: i64,
    pub observed_at: i64,
    pub value: String,
    pub source: i64,
    pub expires_at: Option<i64>,
    pub basis: Option<String>,
    pub import: i64,
    pub said_by: Option<i64>,
}

/// A source.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the columns of the table")]
pub struct CopiedSource {
    pub id: i64,
    pub name: String,
    pub max_age: Option<i64>,
}

/// A suppression, or one that was taken back.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the columns of the table")]
pub struct CopiedSuppression {
    pub digest: Vec<u8>,
    pub key: String,
    pub suppressed_at: i64,
    pub is_removed: bool,
}

impl<'a> From<&'a CopiedSuppression> for BoundRow<'a> {
    fn from(row: &'a CopiedSuppression) -> Self {
        Self::Suppression(&row.digest, &row.key, row.suppressed_at)
    }
}

/// How many tokens and suppressions there are. A copy with the newest change that has fewer is not whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccessCount {
    /// Tokens, also those that have ended.
    pub tokens: u64,
    /// Suppressions that are in force.
    pub suppressions: u64,
}

/// Changes of tokens and suppressions.
#[derive(Default)]
pub struct AccessChanges {
    /// Tokens that were created or changed, in the order in which they were created.
    pub tokens: Vec<EntityRow>,
    /// Suppressions that were added or taken back.
    pub suppressions: Vec<CopiedSuppression>,
    /// The newest change that this contains.
    pub at: ChangePoint,
    /// The changes since the one before that number, in order; only the newest two if all rows were read.
    pub changes: Vec<SealedChange>,
}

impl AccessChanges {
    /// The rows that are bound by seals.
    pub fn rows(&self) -> impl Iterator<Item = BoundRow<'_>> {
        let tokens = self.tokens.iter().map(|row| BoundRow::Entity(EntityTable::Tokens, row));
        tokens.chain(self.suppressions.iter().filter(|row| !row.is_removed).map(BoundRow::from))
    }
}

/// A part of the details, in the order of their ids. It contains whole places.
#[derive(Default)]
pub struct DetailsChunk {
    /// The details.
    pub details: Vec<CopiedDetail>,
    /// All sources that they name, and maybe more.
    pub sources: Vec<CopiedSource>,
    /// All places up to this id are complete; `None` if these are the last.
    pub through: Option<i64>,
    /// The newest change that they contain.
    pub at: ChangePoint,
}

/// A part of what changed since a number. Parts come in the order of ids, with whole places in each; those with
/// [`emptied`](Self::emptied) come last.
#[derive(Default)]
pub struct DetailsChanges {
    /// The details of the places that changed.
    pub details: Vec<CopiedDetail>,
    /// All sources; only in the first part.
    pub sources: Vec<CopiedSource>,
    /// Places that have no details any more.
    pub emptied: Vec<i64>,
}

/// How much a store holds at one moment, and a digest of all of it. Stores with the same content have the same digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyDigest {
    /// The last change of details that it contains.
    pub details_number: i64,
    /// The last change of tokens and suppressions that it contains.
    pub access_number: i64,
    /// Profiles.
    pub profiles: u64,
    /// Details.
    pub details: u64,
    /// Tokens, revoked or not.
    pub tokens: u64,
    /// Suppressions.
    pub suppressions: u64,
    /// SHA-256 over all details, in the order of their ids.
    pub details_digest: [u8; 32],
    /// SHA-256 over all tokens and suppressions, in order.
    pub access_digest: [u8; 32],
}

/// Computes the digest of details.
#[derive(Default)]
pub struct DetailsDigest {
    hash: Sha256,
    details: u64,
    profiles: u64,
    /// The place of the last detail, and the profiles in it.
    place: Option<i64>,
    in_place: Vec<String>,
}

impl DetailsDigest {
    /// Adds a detail. They come in the order of their ids.
    pub fn add(&mut self, detail: &CopiedDetail, source: &str) {
        self.details += 1;
        let place = place_of(detail.id);
        if self.place != Some(place) {
            self.place = Some(place);
            self.in_place.clear();
        }
        if !self.in_place.contains(&detail.profile) {
            self.profiles += 1;
            self.in_place.push(detail.profile.clone());
        }
        let hash = &mut self.hash;
        number(hash, Some(detail.id));
        text(hash, Some(&detail.profile));
        for value in [detail.kind, detail.label, detail.confidence, detail.observed_at] {
            number(hash, Some(value));
        }
        text(hash, Some(&detail.value));
        text(hash, Some(source));
        number(hash, detail.expires_at);
        text(hash, detail.basis.as_deref());
        number(hash, Some(detail.import));
        number(hash, detail.said_by);
    }

    /// The numbers of profiles and details, and the digest.
    pub fn finish(self) -> (u64, u64, [u8; 32]) {
        (self.profiles, self.details, self.hash.finalize().into())
    }
}

/// Computes the digest of tokens and suppressions. When a token was used last is left out, because every node has its own
/// answer.
pub fn access_digest(tokens: &mut [EntityRow], suppressions: &mut [CopiedSuppression]) -> [u8; 32] {
    let mut hash = Sha256::new();
    tokens.sort_by(|one, other| one.id.cmp(&other.id));
    suppressions.sort_by(|one, other| (&one.key, &one.digest).cmp(&(&other.key, &other.digest)));
    for token in tokens {
        for value in [Some(&token.id), token.family.as_ref(), Some(&token.body)] {
            text(&mut hash, value.map(String::as_str));
        }
    }
    for suppression in suppressions.iter().filter(|suppression| !suppression.is_removed) {
        text(&mut hash, Some(&suppression.key));
        bytes(&mut hash, Some(&suppression.digest));
        number(&mut hash, Some(suppression.suppressed_at));
    }
    hash.finalize().into()
}

fn number(hash: &mut Sha256, value: Option<i64>) {
    hash.update([u8::from(value.is_some())]);
    hash.update(value.unwrap_or(0).to_le_bytes());
}

fn text(hash: &mut Sha256, value: Option<&str>) {
    bytes(hash, value.map(str::as_bytes));
}

fn bytes(hash: &mut Sha256, value: Option<&[u8]>) {
    hash.update([u8::from(value.is_some())]);
    let value = value.unwrap_or_default();
    hash.update((value.len() as u64).to_le_bytes());
    hash.update(value);
}
