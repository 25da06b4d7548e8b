//! Reading a table: from memory, or with one read of the file for each lookup. Nothing is mapped: a file that cannot be read,
//! or that somebody truncates, is an ordinary error.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use contactd_core::Kind;

use crate::header::{Header, MOST_MOVED};
use crate::slot::{self, Is, MOST_CONTENT, MOST_PARTS, SLOT, Slot};
use crate::{Key, TableId, Values};

/// Slots of the first read. Hardly any lookup needs more.
const FIRST_READ: usize = 12;
/// Slots of the second read: enough for every record that the writer places.
const SECOND_READ: usize = MOST_MOVED as usize + MOST_PARTS;

/// A whole table, which does not change but for records that are wiped.
#[derive(Debug)]
pub struct Table {
    header: Header,
    slots: Slots,
}

#[derive(Debug)]
enum Slots {
    /// All of the file.
    Memory(Vec<Slot>),
    File(File),
}

/// Why a table cannot say what is held for a profile: the store has to be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsure {
    /// A record in this place was wiped.
    Wiped,
    /// The file is damaged, or cannot be read.
    Damaged,
}

impl Table {
    /// Opens the table in a file. Fails with `InvalidData` if it is not a whole table with this id.
    pub fn open(file: File, id: TableId) -> io::Result<Self> {
        let header = Header::read(&file)?;
        if header.id != id {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(Self { header, slots: Slots::File(file) })
    }

    /// The same table, read into memory.
    pub fn in_memory(file: &File, id: TableId) -> io::Result<Self> {
        let header = Header::read(file)?;
        if header.id != id {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let count = usize::try_from(header.file_length()).unwrap_or(usize::MAX) / SLOT;
        let mut slots = Vec::new();
        slots.try_reserve_exact(count).map_err(|_| io::ErrorKind::OutOfMemory)?;
        slots.resize(count, [0; SLOT]);
        file.read_exact_at(slots.as_flattened_mut(), 0)?;
        Ok(Self { header, slots: Slots::Memory(slots) })
    }

    /// Which table this is.
    pub fn id(&self) -> TableId {
        self.header.id
    }

    /// Whether it is in memory.
    pub fn is_in_memory(&self) -> bool {
        matches!(self.slots, Slots::Memory(_))
    }

    /// Its size, in bytes.
    pub fn bytes(&self) -> u64 {
        self.header.file_length()
    }

    /// How many records it was made with.
    pub fn records(&self) -> u64 {
        self.header.records
    }

    /// Passes what is held for the profile with this key, in this place of the store, and a kind; `None` if nothing is.
    pub fn find<R>(
        &self,
        place: i64,
        profile: &str,
        kind: Kind,
        pass: impl FnOnce(Option<Values<'_>>) -> R,
    ) -> Result<R, Unsure> {
        let key = self.header.secret.key(place, profile, kind);
        let section = self.header.section(kind);
        let first = section.place(key.order);
        match &self.slots {
            Slots::Memory(slots) => {
                let range = index(first)?..index(section.end())?;
                let scan = Scan { header: &self.header, key, first };
                let slots = slots.get(range).ok_or(Unsure::Damaged)?;
                scan.run(slots, pass)?.map_err(|_| Unsure::Damaged)
            }
            Slots::File(file) => {
                let scan = Scan { header: &self.header, key, first };
                let pass =
                    match self.read(file, first, section.end(), &mut [[0; SLOT]; FIRST_READ], &scan, pass)? {
                        Ok(passed) => return Ok(passed),
                        Err(pass) => pass,
                    };
                let passed =
                    self.read(file, first, section.end(), &mut [[0; SLOT]; SECOND_READ], &scan, pass)?;
                passed.map_err(|_| Unsure::Damaged)
            }
        }
    }

    fn read<R, P: FnOnce(Option<Values<'_>>) -> R>(
        &self,
        file: &File,
        first: u64,
        end: u64,
        slots: &mut [Slot],
        scan: &Scan<'_>,
        pass: P,
    ) -> Result<Result<R, P>, Unsure> {
        let count = index(end.saturating_sub(first))?.min(slots.len());
        let slots = &mut slots[..count];
        file.read_exact_at(slots.as_flattened_mut(), first * SLOT as u64).map_err(|_| Unsure::Damaged)?;
        scan.run(slots, pass)
    }
}

fn index(slot: u64) -> Result<usize, Unsure> {
    usize::try_from(slot).map_err(|_| Unsure::Damaged)
}

/// Looks for a record from its place on.
struct Scan<'a> {
    header: &'a Header,
    key: Key,
    /// The number of the first slot.
    first: u64,
}

impl Scan<'_> {
    /// Passes what is found. Returns `pass` if there are too few slots to know.
    fn run<R, P: FnOnce(Option<Values<'_>>) -> R>(
        &self,
        slots: &[Slot],
        pass: P,
    ) -> Result<Result<R, P>, Unsure> {
        let seed_of = |at: usize| self.header.seed_of(self.first + at as u64);
        let (mut at, mut is_unsure) = (0, false);
        while let Some(slot) = slots.get(at) {
            let is = slot::read(slot, seed_of(at)).ok_or(Unsure::Damaged)?;
            let is_behind = match is {
                Is::Empty => true,
                Is::First => slot::order(slot) > self.key.order,
                Is::Later | Is::Wiped => false,
            };
            if is_behind {
                return if is_unsure { Err(Unsure::Wiped) } else { Ok(Ok(pass(None))) };
            }
            is_unsure |= is == Is::Wiped;
            if is == Is::First && slot::is_of(slot, &self.key) {
                return match slot::parts(slot) {
                    1 => Ok(Ok(pass(Some(Values::of(slot::content(slot)))))),
                    parts => match slots.get(at..at + parts) {
                        None => Ok(Err(pass)),
                        Some(record) => {
                            let mut content = [0; MOST_CONTENT];
                            let length = slot::gather(record, |part| seed_of(at + part), &mut content);
                            let length = length.ok_or(Unsure::Damaged)?;
                            Ok(Ok(pass(Some(Values::of(&content[..length])))))
                        }
                    },
                };
            }
            at += 1;
        }
        Ok(Err(pass))
    }
}
