//! Seals: what binds the rows of tokens, opt-outs and accounts to a key that their database does not have.
//!
//! Every row has a keyed code, and a group of tables the sum of the codes of all its rows. Each change of a group stores, with its
//! number and id, that sum behind a mask, and a tag over it and the tag of the change before. Whoever changes the rows without the key
//! cannot make a sum or a tag that fits; and a writer adds only the rows that it changes, so it never takes over what somebody else did.

use crate::DigestKeys;
use crate::store::{EntityRow, EntityTable};

/// The sum of the codes of rows, modulo 2²⁵⁶. The order of rows does not matter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowSum([u64; 4]);

impl RowSum {
    fn of(bytes: [u8; 32]) -> Self {
        let mut words = [0; 4];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        Self(words)
    }

    fn bytes(self) -> [u8; 32] {
        let mut bytes = [0; 32];
        for (bytes, word) in bytes.as_chunks_mut().0.iter_mut().zip(self.0) {
            *bytes = word.to_le_bytes();
        }
        bytes
    }

    /// With another code or sum.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let (mut sum, mut carry) = (self, false);
        for (word, more) in sum.0.iter_mut().zip(other.0) {
            (*word, carry) = word.carrying_add(more, carry);
        }
        sum
    }

    /// Without another code or sum.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        let (mut sum, mut borrow) = (self, false);
        for (word, less) in sum.0.iter_mut().zip(other.0) {
            (*word, borrow) = word.borrowing_sub(less, borrow);
        }
        sum
    }
}

/// A row that is bound. When a token was last used, and what else is counted, is not.
#[derive(Clone, Copy)]
pub enum BoundRow<'a> {
    /// A token, a user, or an admin token.
    Entity(EntityTable, &'a EntityRow),
    /// A suppression: its digest, its key, and since when.
    Suppression(&'a [u8], &'a str, i64),
}

/// What a change stores beside its number and id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seal {
    /// The id of the digest key that it was made with.
    pub key: String,
    /// The sum of all rows, behind the mask of this change.
    pub sum: [u8; 32],
    /// The tag over everything in this change and the tag of the one before.
    pub tag: [u8; 32],
}

/// A change of a group of tables, as the database has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedChange {
    /// `access` or `accounts`.
    pub counter: &'static str,
    /// Its number.
    pub number: i64,
    /// Its random id.
    pub id: Vec<u8>,
    /// Its seal; `None` if it has none, or not a whole one.
    pub seal: Option<Seal>,
}

/// What is wrong with the newest change, or with the rows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealFault {
    /// It has no seal.
    #[error(
        "its newest change has no seal: it was made by an earlier version of contactd, or by somebody else"
    )]
    Unsealed,
    /// Its key is missing here.
    #[error("the digest key with fingerprint {0} is missing here: copy it from another node")]
    NoKey(String),
    /// The seal does not fit.
    #[error("its newest change was not made by contactd")]
    Forged,
    /// The rows are not those that were sealed.
    #[error("rows were changed, added or removed by hand")]
    Rows,
}

/// The key of codes and tags.
#[derive(Clone)]
pub struct StateKey {
    id: String,
    key: [u8; 32],
}

impl StateKey {
    pub(crate) fn new(id: &str, key: [u8; 32]) -> Self {
        Self { id: id.to_owned(), key }
    }

    /// The id of the digest key.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The code of a row.
    pub fn code(&self, row: BoundRow<'_>) -> RowSum {
        RowSum::of(match row {
            BoundRow::Entity(table, row) => {
                let family: &[&[u8]] = &[row.family.as_deref().unwrap_or_default().as_bytes()];
                let family = if row.family.is_some() { family } else { &[] };
                let columns = [&[table.name().as_bytes(), row.id.as_bytes(), row.body.as_bytes()], family];
                self.hash("row", &columns.concat())
            }
            BoundRow::Suppression(digest, key, at) => {
                self.hash("row", &[b"suppressions", digest, key.as_bytes(), &at.to_le_bytes()])
            }
        })
    }

    /// The sum of rows.
    pub fn sum<'a>(&self, rows: impl IntoIterator<Item = BoundRow<'a>>) -> RowSum {
        rows.into_iter().fold(RowSum::default(), |sum, row| sum.plus(self.code(row)))
    }

    /// Seals a change, after which the rows have this sum. `previous` is the tag of the change before; empty if there is none.
    pub fn seal(&self, previous: &[u8], (counter, number, id): (&str, i64, &[u8]), sum: RowSum) -> Seal {
        let sum = sum.plus(self.mask(counter, number, id)).bytes();
        Seal { key: self.id.clone(), sum, tag: self.tag(previous, (counter, number, id), &sum) }
    }

    /// What hides the sum, so that the sums of two changes do not give the code of a row.
    fn mask(&self, counter: &str, number: i64, id: &[u8]) -> RowSum {
        RowSum::of(self.hash("mask", &[counter.as_bytes(), &number.to_le_bytes(), id]))
    }

    fn tag(&self, previous: &[u8], (counter, number, id): (&str, i64, &[u8]), sum: &[u8]) -> [u8; 32] {
        let parts = [previous, counter.as_bytes(), &number.to_le_bytes(), id, self.id.as_bytes(), sum];
        self.hash("tag", &parts)
    }

    fn hash(&self, what: &str, parts: &[&[u8]]) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        for part in [&[what.as_bytes()], parts].concat() {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
        }
        *hasher.finalize().as_bytes()
    }
}

impl SealedChange {
    /// The tag; empty if there is none.
    pub fn tag(&self) -> &[u8] {
        self.seal.as_ref().map_or(&[], |seal| &seal.tag)
    }

    /// How a line of the journal notes it.
    pub fn noted(&self) -> String {
        format!("{}:{}:{}", self.counter, self.number, crate::hex::encode(self.tag()))
    }

    /// The sum that it sealed, and the key; or what is wrong with it. `previous` is the change before.
    pub fn open(&self, previous: Option<&Self>, keys: &DigestKeys) -> Result<(StateKey, RowSum), SealFault> {
        let seal = self.seal.as_ref().ok_or(SealFault::Unsealed)?;
        let key = keys.state_key(&seal.key).ok_or_else(|| SealFault::NoKey(seal.key.clone()))?;
        let at = (self.counter, self.number, &self.id[..]);
        // The first change has none before it. Of a later one, the change before is always kept.
        let previous = match previous {
            Some(previous) if previous.number + 1 == self.number => previous.tag(),
            None if self.number == 1 => &[],
            _ => return Err(SealFault::Forged),
        };
        if key.tag(previous, at, &seal.sum) != seal.tag {
            return Err(SealFault::Forged);
        }
        let sum = RowSum::of(seal.sum).minus(key.mask(self.counter, self.number, &self.id));
        Ok((key, sum))
    }
}

/// Opens the newest of these changes, which come in order; or says what the rows of a group have to be if nothing was changed yet.
pub fn open_newest(
    changes: &[SealedChange],
    number: i64,
    keys: &DigestKeys,
) -> Result<(StateKey, RowSum), SealFault> {
    if number == 0 {
        let key = keys.state_key(keys.newest_id()).ok_or(SealFault::Unsealed)?;
        return Ok((key, RowSum::default()));
    }
    let newest = changes.last().filter(|newest| newest.number == number).ok_or(SealFault::Unsealed)?;
    newest.open(changes.iter().rev().nth(1), keys)
}

/// Whether the newest of these changes continues the one at a number: all between them are there, and their tags lead from one to
/// the next.
pub fn do_continue(changes: &[SealedChange], number: i64, keys: &DigestKeys) -> bool {
    let is_linked = |pair: &[SealedChange]| match pair {
        // What was made before the first seal has none.
        [_, next] if next.number == number && next.seal.is_none() => true,
        [before, next] => next.open(Some(before), keys).is_ok(),
        _ => true,
    };
    number == 0 || changes.windows(2).all(is_linked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DigestKey;

    fn keys(bytes: &[u8]) -> DigestKeys {
        DigestKeys::new(bytes.iter().map(|byte| DigestKey::new(&[*byte; 32])).collect()).expect("keys")
    }

    fn chain(keys: &DigestKeys, sums: &[RowSum]) -> Vec<SealedChange> {
        let key = keys.state_key(keys.newest_id()).expect("a key");
        let mut changes: Vec<SealedChange> = Vec::new();
        for (number, sum) in (1..).zip(sums) {
            let id = vec![u8::try_from(number).expect("small"); 16];
            let previous = changes.last().map_or(&[][..], SealedChange::tag);
            let seal = Some(key.seal(previous, ("access", number, &id), *sum));
            changes.push(SealedChange { counter: "access", number, id, seal });
        }
        changes
    }

    #[test]
    fn a_sum_gives_back_what_was_added_in_any_order() {
        let key = keys(&[7]).state_key(keys(&[7]).newest_id()).expect("a key");
        let rows = [BoundRow::Suppression(&[1; 32], "k", 5), BoundRow::Suppression(&[2; 32], "k", 5)];
        let [one, other] = rows.map(|row| key.code(row));
        assert_eq!(one.plus(other), other.plus(one));
        assert_eq!(one.plus(other).minus(one), other);
        assert_eq!(RowSum::default().minus(one).plus(one), RowSum::default());
        let moved = key.code(BoundRow::Suppression(&[1; 32], "k", 6));
        assert!(![one, other].contains(&moved), "every column counts");
    }

    #[test]
    fn only_an_unchanged_chain_under_a_known_key_is_opened() {
        let keys = keys(&[7]);
        let key = keys.state_key(keys.newest_id()).expect("a key");
        let sums = [1, 2, 3].map(|byte| key.code(BoundRow::Suppression(&[byte; 32], "k", 5)));
        let changes = chain(&keys, &sums);
        let opened = |changes: &[SealedChange]| open_newest(changes, 3, &keys).map(|(_, sum)| sum);
        assert_eq!(opened(&changes), Ok(sums[2]));
        assert!(do_continue(&changes, 1, &keys));
        for change in [
            |changes: &mut Vec<SealedChange>| changes[2].id = vec![9; 16],
            |changes: &mut Vec<SealedChange>| changes[2].seal.as_mut().expect("a seal").sum[0] ^= 1,
            |changes: &mut Vec<SealedChange>| changes[1].seal = None,
            |changes: &mut Vec<SealedChange>| drop(changes.remove(1)),
        ] {
            let mut changed = changes.clone();
            change(&mut changed);
            assert_eq!(opened(&changed), Err(SealFault::Forged));
            assert!(!do_continue(&changed, 1, &keys));
        }
        let unsealed = SealedChange { seal: None, ..changes[2].clone() };
        assert_eq!(opened(&[changes[1].clone(), unsealed]), Err(SealFault::Unsealed));
        assert_eq!(opened(&changes[..2]), Err(SealFault::Unsealed), "the newest one is not there");
        let id = keys.newest_id().to_owned();
        assert_eq!(open_newest(&changes, 3, &self::keys(&[8])).map(drop), Err(SealFault::NoKey(id)));
        // A key that was added later changes nothing.
        assert!(open_newest(&changes, 3, &self::keys(&[7, 8])).is_ok());
    }
}
