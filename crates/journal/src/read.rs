//! Reading a journal from somewhere on, also while it is written.

use std::io::{BufRead, Read};
use std::path::{Path, PathBuf};

use contactd_core::{AuditPosition as Position, Chain, JournalError};

use crate::file::failed;
use crate::line::Line;
use crate::segment::{self, Segment};

/// The whole lines of a journal, one after the other, and where each ends.
pub struct Lines {
    dir: PathBuf,
    /// Behind the last line that could be read.
    position: Position,
    /// How much of the segment has been read, good or not.
    offset: u64,
    reader: Option<Box<dyn BufRead + Send>>,
    buffer: Vec<u8>,
    /// Whether the segment at hand will not get any more lines.
    is_closed: bool,
}

impl Lines {
    /// The lines behind `position`.
    pub fn after(dir: &Path, position: Position) -> Self {
        Self { dir: dir.to_owned(), position, offset: 0, reader: None, buffer: Vec::new(), is_closed: false }
    }

    /// The directory of the journal.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Where the last line ended.
    pub fn position(&self) -> Position {
        self.position
    }

    /// The next whole line; none where there is none yet. A line that cannot be read is passed over: finding those is
    /// [`verify`](crate::verify())'s business.
    pub fn read(&mut self) -> Result<Option<Line>, JournalError> {
        loop {
            if self.reader.is_none() && !self.open()? {
                return Ok(None);
            }
            let Some(reader) = &mut self.reader else { return Ok(None) };
            self.buffer.clear();
            let read = reader.read_until(b'\n', &mut self.buffer);
            let read =
                read.map_err(failed("cannot read", &segment::path(&self.dir, self.position.segment)))?;
            if !self.buffer.ends_with(b"\n") {
                // The end of the segment, or of what is written of it.
                self.reader = None;
                if !self.is_closed {
                    self.is_closed = self.has_a_next()?;
                    if !self.is_closed {
                        return Ok(None);
                    }
                    // Lines may have come before it was closed: look once more.
                    continue;
                }
                self.position = Position { segment: self.position.segment + 1, offset: 0, ..self.position };
                self.is_closed = false;
                continue;
            }
            self.offset += read as u64;
            if let Some(line) = Line::parse(self.buffer.trim_ascii_end()) {
                // One that was left behind by a failed write is there again in the next segment.
                if line.seq > self.position.seq {
                    self.position =
                        Position { offset: self.offset, seq: line.seq, chain: line.chain.0, ..self.position };
                    return Ok(Some(line));
                }
            }
        }
    }

    /// Opens the segment that the position is in, or the one behind it.
    fn open(&mut self) -> Result<bool, JournalError> {
        let segments = segment::list(&self.dir)?;
        let last = segments.last().map(Segment::name);
        let Some(segment) = segments.into_iter().find(|segment| segment.first >= self.position.segment)
        else {
            // The one that was read from is not the last any more: it is gone, and all behind it.
            return match self.position.seq {
                0 => Ok(false),
                _ => Err(JournalError::Changed { file: last.unwrap_or_default() }),
            };
        };
        if segment.first > self.position.segment {
            self.position = Position { segment: segment.first, offset: 0, ..self.position };
            self.is_closed = false;
        }
        self.reader = Some(self.skip_to(&segment)?);
        self.offset = self.position.offset;
        Ok(true)
    }

    /// Goes to the position, and sees that the line before it is still the one that was read.
    fn skip_to(&self, segment: &Segment) -> Result<Box<dyn BufRead + Send>, JournalError> {
        if self.position.offset == 0 {
            return segment.read();
        }
        let changed = || JournalError::Changed { file: segment.name() };
        let expected = format!("{}\"}}\n", Chain(self.position.chain));
        let before = self.position.offset.checked_sub(expected.len() as u64).ok_or_else(changed)?;
        let mut reader = segment.read_from(before)?;
        let mut end = vec![0; expected.len()];
        if reader.read_exact(&mut end).is_err() || end != expected.as_bytes() {
            return Err(changed());
        }
        Ok(reader)
    }

    /// Whether there is a segment behind the one that was read to its end.
    fn has_a_next(&self) -> Result<bool, JournalError> {
        Ok(segment::list(&self.dir)?.iter().any(|segment| segment.first > self.position.segment))
    }
}
