//! Reading a journal from a given position, even while it is being written.

use contactd_core::{AuditPosition as Position, SignedLine};

use crate::JournalError;
use crate::line::{Checkpoint, Entry, Line, Mark};
use crate::source::Source;
use crate::verify::Verifier;
use crate::walk::{Proven, Walk};

/// Reads the lines of a journal in order. Lines that were changed, or added by somebody else, are left out.
pub struct Lines {
    source: Source,
    verifier: Verifier,
    position: Position,
    walk: Option<Walk>,
}

impl Lines {
    /// The lines after `position`.
    pub(crate) const fn of(source: Source, position: Position, verifier: Verifier) -> Self {
        Self { source, verifier, position, walk: None }
    }

    /// The lines from where a walk is.
    pub(crate) fn of_walk(source: Source, walk: Walk, verifier: Verifier) -> Self {
        Self { source, verifier, position: walk.position(), walk: Some(walk) }
    }

    /// How many faults were found so far. Lines are left out there.
    pub fn faults(&self) -> usize {
        self.walk.as_ref().map_or(0, |walk| walk.faults.len())
    }

    /// The end of the last line that was returned.
    pub const fn position(&self) -> Position {
        self.position
    }

    /// The next line; none if there is none yet.
    pub fn read(&mut self) -> Result<Option<Line>, JournalError> {
        Ok(self.next()?.map(|proven| proven.line))
    }

    /// The next line that is signed, as it is written; none if there is none yet.
    pub fn read_signed(&mut self) -> Result<Option<SignedLine>, JournalError> {
        let Some(proven) = self.next()? else { return Ok(None) };
        let signed = proven.line.checkpoint();
        let list = match &proven.line.entry {
            Entry::Admin(record) => record.entry.list().map(str::to_owned),
            _ => None,
        };
        Ok(Some(SignedLine {
            seq: proven.line.seq,
            begins_segment: proven.begins_segment,
            list,
            is_checkpoint: signed.is_some(),
            is_seal: signed.is_some_and(Checkpoint::is_copied),
            retires: match proven.line.entry {
                Entry::Mark(Mark::Retired { through, .. }) => Some(through),
                _ => None,
            },
            text: String::from_utf8_lossy(&proven.text).into_owned(),
        }))
    }

    /// The next line with its text; none if there is none yet.
    pub(crate) fn next(&mut self) -> Result<Option<Proven>, JournalError> {
        let walk = match &mut self.walk {
            Some(walk) => walk,
            None => {
                let mut walk = self.verifier.walk(&self.source)?;
                walk.go_to(self.position)?;
                self.walk.insert(walk)
            }
        };
        let proven = walk.next()?;
        if proven.is_some() {
            self.position = walk.position();
        } else if self.position == Position::default() {
            self.verifier.check_there(&self.source)?;
        }
        Ok(proven)
    }
}
