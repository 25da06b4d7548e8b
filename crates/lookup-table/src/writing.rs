//! Writing a table from beginning to end, with records in the order of the store.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use contactd_core::Kind;

use crate::header::{HEADER_SLOTS, Header, MOST_MOVED, Section, number};
use crate::slot::{self, SLOT, Slot};
use crate::{Content, TableId};

/// How many slots of 100 have records.
const FULL_PERCENT: u64 = 70;
/// How many slots are kept in memory before the size of a section is estimated from them. Places are evenly spread.
const SAMPLE: usize = 65_536;
/// How many slots are written at once.
const WRITTEN_TOGETHER: usize = 16_384;
/// What is written is synced in portions: all of it at the end would delay whoever else syncs a file, and so every lookup.
const SYNCED_TOGETHER: u64 = 16 << 20;

/// A table that is being written. It is no table before [`Unfinished::finish`].
pub struct Writer {
    output: Output,
    header: Header,
    kinds: [Filling; 2],
    /// The first slot that is in no section.
    end: u64,
    full_percent: u64,
}

/// Why a table could not be written.
#[derive(Debug)]
pub enum Unfinished {
    /// More records belong into one place than a table can have. More room helps, unless somebody chose the profiles.
    Crowded,
    /// The file could not be written.
    Io(io::Error),
}

impl From<io::Error> for Unfinished {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// The section of a kind.
#[derive(Debug, Default)]
struct Filling {
    /// Slots that wait for the size of the section to be known.
    sample: Vec<Slot>,
    section: Option<Placed>,
}

/// A section whose size is known.
#[derive(Debug)]
struct Placed {
    section: Section,
    /// Slots that are not written yet, up to the next free one.
    slots: Vec<Slot>,
    /// The number of the first of them.
    from: u64,
}

struct Output {
    file: File,
    room: Room,
    unsynced: u64,
}

/// Is asked before this many bytes are written, and may refuse.
pub type Room = Box<dyn FnMut(u64) -> io::Result<()>>;

impl Writer {
    /// Begins a table in an empty file. `is_roomy`: with more room between the records, after [`Unfinished::Crowded`].
    pub fn new(file: File, id: TableId, is_roomy: bool, room: Room) -> io::Result<Self> {
        Ok(Self {
            output: Output { file, room, unsynced: 0 },
            header: Header::new(id)?,
            kinds: Default::default(),
            end: HEADER_SLOTS.into(),
            full_percent: if is_roomy { FULL_PERCENT / 4 } else { FULL_PERCENT },
        })
    }

    /// Adds what is held for the profile with this key and a kind. Of each kind, places come in ascending order.
    pub fn put(
        &mut self,
        place: i64,
        profile: &str,
        kind: Kind,
        content: &Content,
    ) -> Result<(), Unfinished> {
        if content.is_empty() {
            return Ok(());
        }
        self.header.records += 1;
        let key = self.header.secret.key(place, profile, kind);
        let record = slot::record(&key, content.bytes());
        let filling = &mut self.kinds[number(kind)];
        if let Some(placed) = &mut filling.section {
            return placed.put(key.order, record, &self.header, &mut self.output);
        }
        filling.sample.extend(record);
        if filling.sample.len() < SAMPLE {
            return Ok(());
        }
        // A few more than estimated: the rest may be a little denser than the sample.
        let of_all = (u64::from(key.order) + 1).max(1);
        let estimated = (filling.sample.len() as u64).saturating_mul(1 << 32) / of_all * 102 / 100;
        self.place(kind, estimated)
    }

    /// Decides the size of a kind's section, for this many slots, and writes those that waited for it.
    fn place(&mut self, kind: Kind, slots: u64) -> Result<(), Unfinished> {
        let section = Section { first: self.end, places: slots * 100 / self.full_percent + 1 };
        self.end = section.end();
        self.header.sections[number(kind)] = section;
        let mut placed = Placed { section, slots: Vec::new(), from: section.first };
        let filling = &mut self.kinds[number(kind)];
        let sample = std::mem::take(&mut filling.sample);
        let mut left = sample.as_slice();
        while let Some(first) = left.first() {
            let (record, rest) = left.split_at(slot::parts(first).min(left.len()));
            placed.put(slot::order(first), record.iter().copied(), &self.header, &mut self.output)?;
            left = rest;
        }
        filling.section = Some(placed);
        Ok(())
    }

    /// Ends the table: whole and synced when this returns. Returns its size in bytes.
    pub fn finish(mut self) -> Result<u64, Unfinished> {
        for kind in Kind::ALL {
            let filling = &self.kinds[number(kind)];
            if filling.section.is_none() {
                let slots = filling.sample.len() as u64;
                self.place(kind, slots)?;
            }
        }
        for filling in &mut self.kinds {
            if let Some(placed) = &mut filling.section {
                placed.fill_to(placed.section.end(), &self.header, &mut self.output)?;
                placed.write(&mut self.output)?;
            }
        }
        // So that the file has the length that the header says, with zeros behind it.
        self.output.file.write_all_at(&[0; SLOT * HEADER_SLOTS as usize], 0)?;
        self.output.file.sync_data()?;
        self.header.write(&self.output.file)?;
        self.output.file.sync_all()?;
        Ok(self.header.file_length())
    }
}

impl Placed {
    /// The number of the next free slot.
    fn free(&self) -> u64 {
        self.from + self.slots.len() as u64
    }

    fn put(
        &mut self,
        order: u32,
        record: impl Iterator<Item = Slot>,
        header: &Header,
        output: &mut Output,
    ) -> Result<(), Unfinished> {
        let place = self.section.place(order);
        self.fill_to(place, header, output)?;
        for slot in record {
            let at = self.free();
            if at >= place + u64::from(MOST_MOVED) || at >= self.section.end() {
                return Err(Unfinished::Crowded);
            }
            self.slots.push(slot::sealed(slot, header.seed_of(at)));
        }
        Ok(())
    }

    /// Adds empty slots up to this one.
    fn fill_to(&mut self, end: u64, header: &Header, output: &mut Output) -> io::Result<()> {
        while self.free() < end {
            if self.slots.len() >= WRITTEN_TOGETHER {
                self.write(output)?;
            }
            self.slots.push(slot::empty(header.seed_of(self.free())));
        }
        Ok(())
    }

    fn write(&mut self, output: &mut Output) -> io::Result<()> {
        output.write(self.slots.as_flattened(), self.from * SLOT as u64)?;
        self.from = self.free();
        self.slots.clear();
        Ok(())
    }
}

impl Output {
    fn write(&mut self, bytes: &[u8], at: u64) -> io::Result<()> {
        (self.room)(bytes.len() as u64)?;
        self.file.write_all_at(bytes, at)?;
        self.unsynced += bytes.len() as u64;
        if self.unsynced >= SYNCED_TOGETHER {
            self.file.sync_data()?;
            self.unsynced = 0;
        }
        Ok(())
    }
}
