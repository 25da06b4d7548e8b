//! Where a journal is read from: the files of its directory, or a copy of them that its node has shipped. One reader and one
//! verifier work on both.

use std::collections::HashMap;
use std::io::{self, BufRead, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use contactd_core::store::{CopiedLine, JournalCopies};
use contactd_core::{AuditPosition, hex, wait_for};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use crate::JournalError;
use crate::file::{failed, read_or_empty};
use crate::lists::{LISTS, ListFiles};
use crate::segment::{self, SEALS, Segment};

/// Where a journal is read from.
#[derive(Clone)]
pub(crate) enum Source {
    /// Its directory.
    Dir(PathBuf),
    /// A copy of it.
    Copy(Arc<StoredCopy>),
}

impl From<&Path> for Source {
    fn from(dir: &Path) -> Self {
        Self::Dir(dir.to_owned())
    }
}

impl Source {
    /// Its segments, oldest first.
    pub(crate) fn list(&self) -> Result<Vec<Segment>, JournalError> {
        match self {
            Self::Dir(dir) => segment::list(dir),
            Self::Copy(copy) => Ok(copy.segments()?.into_iter().map(named).collect()),
        }
    }

    /// Its segments after one could not be found, because it was removed after its retention period since it was listed. Fails
    /// if it is still there, or nothing is: then the directory was moved, and may be back.
    pub(crate) fn list_without(&self, removed: u64) -> Result<Vec<Segment>, JournalError> {
        let listed = self.list()?;
        let is_moved = listed.is_empty() || listed.iter().any(|segment| segment.first == removed);
        if is_moved { Err(self.gone()) } else { Ok(listed) }
    }

    /// The error if a journal that was there has no segment any more.
    pub(crate) fn gone(&self) -> JournalError {
        let gone = |why| io::Error::new(io::ErrorKind::NotFound, why);
        match self {
            Self::Dir(dir) => failed("cannot read", dir)(gone(
                "the files of the journal are gone; if they were moved, move them back",
            )),
            Self::Copy(_) => unreadable(gone("its lines are gone from the database")),
        }
    }

    /// The lines of a segment, from byte `offset` on.
    pub(crate) fn read_from(
        &self,
        segment: &Segment,
        offset: u64,
    ) -> Result<Box<dyn BufRead + Send>, JournalError> {
        match self {
            Self::Dir(_) => segment.read_from(offset),
            Self::Copy(copy) => copy.read(segment.first, offset),
        }
    }

    /// The copies of its seals, as in `seals.jsonl`.
    pub(crate) fn seals(&self) -> Result<Vec<u8>, JournalError> {
        match self {
            Self::Dir(dir) => {
                let path = dir.join(SEALS);
                read_or_empty(&path).map_err(failed("cannot read", &path))
            }
            Self::Copy(copy) => copy.seals(),
        }
    }

    /// Whether a list is there and has the content that its name says.
    pub(crate) fn has_list(&self, name: &str) -> Result<bool, JournalError> {
        match self {
            Self::Dir(dir) => match ListFiles::of(dir).is_unchanged(name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
                found => found.map_err(failed("cannot read", &dir.join(LISTS))),
            },
            Self::Copy(copy) => copy.has_list(name),
        }
    }

    /// The names of files that do not belong there.
    pub(crate) fn strange(&self) -> Result<Vec<String>, JournalError> {
        match self {
            Self::Dir(dir) => segment::strange(dir),
            Self::Copy(_) => Ok(Vec::new()),
        }
    }
}

/// A segment of a copy, under the name that its file had.
fn named(first: u64) -> Segment {
    Segment { first, path: segment::path(Path::new(""), first), is_compressed: false }
}

/// How many lines are read together.
const CHUNK: u32 = 2_000;

/// A copy of a journal in the store.
pub(crate) struct StoredCopy {
    store: Arc<dyn JournalCopies>,
    copy: i32,
    ends: Arc<Ends>,
}

/// Where a line ends in its segment, by segment: the end, and the number of the line. So reading can go on there.
type Ends = Mutex<HashMap<u64, (u64, u64)>>;

impl StoredCopy {
    /// A copy. If reading begins at a position, that is known not to need the lines before it.
    pub(crate) fn new(store: Arc<dyn JournalCopies>, copy: i32, position: AuditPosition) -> Self {
        let ends = HashMap::from([(position.segment, (position.offset, position.seq))]);
        Self { store, copy, ends: Arc::new(Mutex::new(ends)) }
    }

    fn lines(&self, from: u64) -> Result<Vec<CopiedLine>, JournalError> {
        Ok(wait_for(self.store.copied_lines(self.copy, from, CHUNK))?)
    }

    fn reading(&self, segment: u64, from: u64, base: u64) -> Reading {
        Reading {
            store: Arc::clone(&self.store),
            copy: self.copy,
            ends: Arc::clone(&self.ends),
            segment,
            next: Some(from),
            offset: base,
            bytes: Vec::new(),
            at: 0,
        }
    }

    /// The number of the first line of each segment, in order.
    pub(crate) fn segments(&self) -> Result<Vec<u64>, JournalError> {
        Ok(wait_for(self.store.copied_segments(self.copy))?)
    }

    /// The lines of a segment from byte `offset` on, each with a newline. Fails with "not found" if there is no such segment any
    /// more.
    pub(crate) fn read(&self, segment: u64, offset: u64) -> Result<Box<dyn BufRead + Send>, JournalError> {
        let known = self.ends.lock().get(&segment).copied();
        if let Some((end, seq)) = known
            && offset > 0
        {
            if offset == end {
                return Ok(Box::new(self.reading(segment, seq + 1, end)));
            }
            // The end of a line that was read before.
            let line = self.lines(seq)?.into_iter().next().filter(|line| line.seq == seq);
            let length = line.map_or(0, |line| line.text.len() as u64 + 1);
            if offset < end && end - offset <= length {
                let mut reading = self.reading(segment, seq, end - length);
                skip(&mut reading, length - (end - offset))?;
                return Ok(Box::new(reading));
            }
        }
        let mut reading = self.reading(segment, segment, 0);
        reading.fill_buf().map_err(unreadable)?;
        skip(&mut reading, offset)?;
        Ok(Box::new(reading))
    }

    /// Whether a list is there and has the content that its name says.
    pub(crate) fn has_list(&self, name: &str) -> Result<bool, JournalError> {
        let mut hasher = Sha256::new();
        for part in 0.. {
            let Some(bytes) = wait_for(self.store.list_part(name, part))? else { break };
            hasher.update(&bytes);
        }
        Ok(hex::encode(&hasher.finalize()) == name)
    }

    /// The copies of the seals, each with a newline.
    pub(crate) fn seals(&self) -> Result<Vec<u8>, JournalError> {
        let seals = wait_for(self.store.copied_seals(self.copy))?;
        Ok(seals.iter().flat_map(|seal| [seal.as_bytes(), b"\n"]).flatten().copied().collect())
    }
}

fn unreadable(error: io::Error) -> JournalError {
    JournalError::File { what: "cannot read", file: "the copy of the journal".to_owned(), error }
}

fn skip(reading: &mut impl Read, count: u64) -> Result<(), JournalError> {
    io::copy(&mut reading.take(count), &mut io::sink()).map_err(unreadable)?;
    Ok(())
}

/// The lines of a segment.
struct Reading {
    store: Arc<dyn JournalCopies>,
    copy: i32,
    ends: Arc<Ends>,
    segment: u64,
    /// The number from which the next lines are read; `None` after the end.
    next: Option<u64>,
    /// Where the bytes end in the segment.
    offset: u64,
    bytes: Vec<u8>,
    at: usize,
}

impl Reading {
    /// Reads more lines. Fails with "not found" if the segment was removed meanwhile.
    fn fetch(&mut self) -> io::Result<()> {
        let Some(from) = self.next else { return Ok(()) };
        let lines = self.stored(from, CHUNK)?;
        (self.at, self.next) = (0, None);
        self.bytes.clear();
        let is_last = lines.len() < CHUNK as usize;
        let mut last = None;
        for line in &lines {
            if line.begins_segment && line.seq != self.segment {
                break;
            }
            self.bytes.extend_from_slice(line.text.as_bytes());
            self.bytes.push(b'\n');
            last = Some(line.seq);
        }
        self.offset += self.bytes.len() as u64;
        if let Some(seq) = last {
            self.ends.lock().insert(self.segment, (self.offset, seq));
            let is_whole = lines.last().is_some_and(|line| line.seq == seq);
            self.next = (is_whole && !is_last).then_some(seq + 1);
        } else if self.stored(self.segment, 1)?.first().is_none_or(|line| line.seq != self.segment) {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the lines are gone"));
        }
        Ok(())
    }

    fn stored(&self, from: u64, most: u32) -> io::Result<Vec<CopiedLine>> {
        wait_for(self.store.copied_lines(self.copy, from, most)).map_err(io::Error::other)
    }
}

impl BufRead for Reading {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.at == self.bytes.len() && self.next.is_some() {
            self.fetch()?;
        }
        Ok(&self.bytes[self.at..])
    }

    fn consume(&mut self, amount: usize) {
        self.at += amount;
    }
}

impl Read for Reading {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(buffer)?;
        self.consume(count);
        Ok(count)
    }
}
