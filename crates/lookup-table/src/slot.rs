//! One slot of 64 bytes.
//!
//! | bytes | |
//! |---|---|
//! | 0–3 | checksum: the lower 32 bits of XXH3-64 of bytes 4 to 63, seeded with the table's seed plus the slot's number |
//! | 4–7 | the order of the record |
//! | 8 | what it is: 0 empty, 1 the first part of a record, 2 another part, 3 wiped |
//! | 9 | first part: of how many; another part: its number |
//! | 10–25 | first part: the fingerprint |
//! | 26–63, or 10–63 | content |
//!
//! Numbers are little-endian.

use twox_hash::XxHash3_64;

use crate::Key;

pub(crate) const SLOT: usize = 64;
pub(crate) type Slot = [u8; SLOT];

/// A record has at most this many slots.
pub(crate) const MOST_PARTS: usize = 8;
const HEAD: usize = 26;
const LATER_HEAD: usize = 10;
const FIRST_CONTENT: usize = SLOT - HEAD;
const LATER_CONTENT: usize = SLOT - LATER_HEAD;
pub(crate) const MOST_CONTENT: usize = FIRST_CONTENT + (MOST_PARTS - 1) * LATER_CONTENT;

const EMPTY: u8 = 0;
const FIRST: u8 = 1;
const LATER: u8 = 2;
const WIPED: u8 = 3;

/// What a slot with a right checksum is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Is {
    Empty,
    First,
    Later,
    Wiped,
}

/// What a slot is. `None` if its checksum or anything else is wrong.
pub(crate) fn read(slot: &Slot, seed: u64) -> Option<Is> {
    if checksum(slot, seed).to_le_bytes() != slot[..4] {
        return None;
    }
    match slot[8] {
        EMPTY => Some(Is::Empty),
        FIRST => Some(Is::First),
        LATER => Some(Is::Later),
        WIPED => Some(Is::Wiped),
        _ => None,
    }
}

pub(crate) fn order(slot: &Slot) -> u32 {
    u32::from_le_bytes([slot[4], slot[5], slot[6], slot[7]])
}

pub(crate) fn is_of(slot: &Slot, key: &Key) -> bool {
    slot[10..HEAD] == key.fingerprint
}

/// How many slots the record has that begins in this one.
pub(crate) fn parts(first: &Slot) -> usize {
    usize::from(first[9])
}

/// The content of a record of one slot.
pub(crate) fn content(first: &Slot) -> &[u8] {
    &first[HEAD..]
}

/// Copies the content of a record of several slots; returns how long it is. `None` if these are not its slots.
pub(crate) fn gather(
    record: &[Slot],
    seed_of: impl Fn(usize) -> u64,
    into: &mut [u8; MOST_CONTENT],
) -> Option<usize> {
    let mut end = FIRST_CONTENT;
    into[..end].copy_from_slice(content(record.first()?));
    for (part, slot) in record.iter().enumerate().skip(1) {
        if read(slot, seed_of(part))? != Is::Later || usize::from(slot[9]) != part {
            return None;
        }
        into.get_mut(end..end + LATER_CONTENT)?.copy_from_slice(&slot[LATER_HEAD..]);
        end += LATER_CONTENT;
    }
    Some(end)
}

/// How many slots this much content needs.
pub(crate) fn parts_for(content: usize) -> usize {
    1 + content.saturating_sub(FIRST_CONTENT).div_ceil(LATER_CONTENT)
}

/// The slots of a record, without their checksums.
pub(crate) fn record(key: &Key, content: &[u8]) -> impl Iterator<Item = Slot> {
    let (first, later) = content.split_at(content.len().min(FIRST_CONTENT));
    let parts = u8::try_from(parts_for(content.len())).unwrap_or(u8::MAX);
    let mut slot = unsealed(key.order, FIRST, parts);
    slot[10..HEAD].copy_from_slice(&key.fingerprint);
    slot[HEAD..HEAD + first.len()].copy_from_slice(first);
    let order = key.order;
    let later = later.chunks(LATER_CONTENT).zip(1..).map(move |(content, part)| {
        let mut slot = unsealed(order, LATER, part);
        slot[LATER_HEAD..LATER_HEAD + content.len()].copy_from_slice(content);
        slot
    });
    std::iter::once(slot).chain(later)
}

pub(crate) fn empty(seed: u64) -> Slot {
    sealed(unsealed(0, EMPTY, 0), seed)
}

pub(crate) fn wiped(seed: u64) -> Slot {
    sealed(unsealed(0, WIPED, 0), seed)
}

/// A slot with its checksum.
pub(crate) fn sealed(mut slot: Slot, seed: u64) -> Slot {
    let checksum = checksum(&slot, seed);
    slot[..4].copy_from_slice(&checksum.to_le_bytes());
    slot
}

fn unsealed(order: u32, is: u8, part: u8) -> Slot {
    let mut slot = [0; SLOT];
    slot[4..8].copy_from_slice(&order.to_le_bytes());
    (slot[8], slot[9]) = (is, part);
    slot
}

fn checksum(slot: &Slot, seed: u64) -> u32 {
    let hash = XxHash3_64::oneshot_with_seed(seed, &slot[4..]);
    u32::try_from(hash & u64::from(u32::MAX)).unwrap_or_default()
}
