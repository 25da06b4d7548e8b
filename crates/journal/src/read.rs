//! Reading a journal from a given position, even while it is being written.

use std::io::{BufRead, Read};
use std::path::{Path, PathBuf};

use contactd_core::{AuditPosition as Position, Chain, JournalError};

use crate::file::failed;
use crate::line::Line;
use crate::segment::{self, Segment};

/// Reads the complete lines of a journal in order, and knows where each one ends.
pub struct Lines {
    dir: PathBuf,
    /// The end of the last line that was returned.
    position: Position,
    /// How many bytes of the segment were read, including lines that cannot be parsed.
    offset: u64,
    reader: Option<Box<dyn BufRead + Send>>,
    buffer: Vec<u8>,
    /// Whether the current segment is closed, so that it gets no more lines.
    is_closed: bool,
}

impl Lines {
    /// The lines after `position`.
    pub fn after(dir: &Path, position: Position) -> Self {
        Self { dir: dir.to_owned(), position, offset: 0, reader: None, buffer: Vec::new(), is_closed: false }
    }

    /// The directory of the journal.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The end of the last line that was returned.
    pub fn position(&self) -> Position {
        self.position
    }

    /// The next complete line; none if there is none yet. Skips lines that cannot be parsed;
    /// [`verify`](crate::verify()) reports them.
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
                // The end of the segment, or of the part written so far.
                self.reader = None;
                if !self.is_closed {
                    self.is_closed = self.has_a_next()?;
                    if !self.is_closed {
                        return Ok(None);
                    }
                    // Lines may have been added before it was closed: read once more.
                    continue;
                }
                self.position = Position { segment: self.position.segment + 1, offset: 0, ..self.position };
                self.is_closed = false;
                continue;
            }
            self.offset += read as u64;
            if let Some(line) = Line::parse(self.buffer.trim_ascii_end()) {
                // A line left by a failed write appears again in the next segment.
                if line.seq > self.position.seq {
                    self.position =
                        Position { offset: self.offset, seq: line.seq, chain: line.chain.0, ..self.position };
                    return Ok(Some(line));
                }
            }
        }
    }

    /// Opens the segment at the position or, if there is none, the next one.
    fn open(&mut self) -> Result<bool, JournalError> {
        let segments = segment::list(&self.dir)?;
        let last = segments.last().map(Segment::name);
        let Some(segment) = segments.into_iter().find(|segment| segment.first >= self.position.segment)
        else {
            // The segment that was read is gone, and so are all later ones.
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

    /// Seeks to the position and checks that the line before it is still the one that was read.
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

    /// Whether there is a segment after the current one.
    fn has_a_next(&self) -> Result<bool, JournalError> {
        Ok(segment::list(&self.dir)?.iter().any(|segment| segment.first > self.position.segment))
    }
}
