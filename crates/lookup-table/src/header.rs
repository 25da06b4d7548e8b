//! The beginning of a table: 64 slots, of which the first 128 bytes say what the table is, the rest is zero.
//!
//! | bytes | |
//! |---|---|
//! | 0–15 | `contactd lookup` and a zero |
//! | 16–19 | version of the format: 1 |
//! | 20–35 | id of the table |
//! | 36–51 | key of the fingerprints |
//! | 52–59 | seed of the checksums |
//! | 60–91 | phone numbers: number of the first slot, number of places; email addresses: the same |
//! | 92–99 | records |
//! | 100–107 | XXH3-64 of bytes 0 to 99 |
//!
//! A section has [`MOST_MOVED`] slots more than places.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use contactd_core::{Kind, hex};
use twox_hash::XxHash3_64;

use crate::Secret;
use crate::slot::SLOT;

/// Slots before the first section.
pub(crate) const HEADER_SLOTS: u16 = 64;
/// How far from its place a record may be, in slots; a table in which one would have to be further away is not made.
pub(crate) const MOST_MOVED: u16 = 256;

const MAGIC: [u8; 16] = *b"contactd lookup\0";
const VERSION: u32 = 1;
const LENGTH: usize = 108;

/// Which table this is, at random.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableId(pub [u8; 16]);

impl TableId {
    /// A new one.
    pub fn random() -> io::Result<Self> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(io::Error::other)?;
        Ok(Self(bytes))
    }

    /// As it is written in the name of a file.
    pub fn shown(&self) -> String {
        hex::encode(&self.0)
    }
}

/// The part of a table for one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Section {
    /// The number of its first slot in the file.
    pub(crate) first: u64,
    /// How many places there are.
    pub(crate) places: u64,
}

impl Section {
    /// The number of the slot where a record of this order should be.
    pub(crate) fn place(&self, order: u32) -> u64 {
        self.first + ((u64::from(order) * self.places) >> 32)
    }

    /// The number of the first slot after it.
    pub(crate) fn end(&self) -> u64 {
        self.first + self.places + u64::from(MOST_MOVED)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) id: TableId,
    pub(crate) secret: Secret,
    pub(crate) seed: u64,
    pub(crate) sections: [Section; 2],
    pub(crate) records: u64,
}

impl Header {
    pub(crate) fn new(id: TableId) -> io::Result<Self> {
        let (secret, seed) = (TableId::random()?.0, TableId::random()?.0);
        let seed = seed.first_chunk().map_or(0, |seed| u64::from_le_bytes(*seed));
        Ok(Self { id, secret: Secret(secret), seed, sections: Default::default(), records: 0 })
    }

    pub(crate) fn section(&self, kind: Kind) -> &Section {
        &self.sections[number(kind)]
    }

    /// The seed of the checksum of a slot.
    pub(crate) fn seed_of(&self, slot: u64) -> u64 {
        self.seed.wrapping_add(slot)
    }

    /// How many bytes the file has.
    pub(crate) fn file_length(&self) -> u64 {
        self.sections.iter().map(Section::end).max().unwrap_or_else(|| HEADER_SLOTS.into()) * SLOT as u64
    }

    pub(crate) fn write(&self, file: &File) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(LENGTH);
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(self.id.0);
        bytes.extend(self.secret.0);
        bytes.extend(self.seed.to_le_bytes());
        for section in &self.sections {
            bytes.extend(section.first.to_le_bytes());
            bytes.extend(section.places.to_le_bytes());
        }
        bytes.extend(self.records.to_le_bytes());
        bytes.extend(XxHash3_64::oneshot(&bytes).to_le_bytes());
        file.write_all_at(&bytes, 0)
    }

    /// Reads the header of a whole table. Fails with `InvalidData` if this is none.
    pub(crate) fn read(file: &File) -> io::Result<Self> {
        let mut bytes = [0; LENGTH];
        file.read_exact_at(&mut bytes, 0)?;
        let header = Self::parse(&bytes).ok_or(io::ErrorKind::InvalidData)?;
        if file.metadata()?.len() != header.file_length() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(header)
    }

    fn parse(bytes: &[u8; LENGTH]) -> Option<Self> {
        let number = |at: usize| bytes[at..].first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
        let is_whole = bytes[..16] == MAGIC
            && bytes[16..20] == VERSION.to_le_bytes()
            && number(100)? == XxHash3_64::oneshot(&bytes[..100]);
        if !is_whole {
            return None;
        }
        let section = |at| Some(Section { first: number(at)?, places: number(at + 8)? });
        Some(Self {
            id: TableId(*bytes[20..].first_chunk()?),
            secret: Secret(*bytes[36..].first_chunk()?),
            seed: number(52)?,
            sections: [section(60)?, section(76)?],
            records: number(92)?,
        })
    }
}

/// Which section a kind has.
pub(crate) fn number(kind: Kind) -> usize {
    match kind {
        Kind::Phone => 0,
        Kind::Email => 1,
    }
}
