//! Starting in the middle of a journal.

use std::io::{BufRead, Read};

use contactd_core::AuditPosition as Position;
use contactd_core::Chain;

use super::opening::NotOpened;
use super::{MAX_LINE, Walk, opening};
use crate::JournalError;
use crate::file::failed;
use crate::line::{Epoch, Line, signed_text};
use crate::segment::Segment;

impl Walk {
    /// Goes to a position, if the line before it is still the one that was read.
    pub(crate) fn go_to(&mut self, position: Position) -> Result<(), JournalError> {
        self.position = position;
        if position.seq == 0 && position.offset == 0 {
            return Ok(());
        }
        let segments = self.source.list()?;
        let Some(last) = segments.last().map(Segment::name) else {
            return Err(self.source.gone());
        };
        let Some(segment) = segments.iter().find(|segment| segment.first == position.segment).cloned() else {
            // It was removed after its retention period, once all of it had been read: the next one continues it.
            for segment in segments {
                match opening(&self.source, &self.trust, &segment)? {
                    Ok(opening) if opening.line.opening() == Some((position.seq, Chain(position.chain))) => {
                        self.enter_checked(segment, &opening);
                        return Ok(());
                    }
                    Err(NotOpened::Gone) => return Err(self.source.gone()),
                    _ => {}
                }
            }
            return Err(JournalError::Changed { file: last });
        };
        let changed = || JournalError::Changed { file: segment.name() };
        let wanted = format!("{}\"}}\n", Chain(position.chain));
        let before = position.offset.checked_sub(wanted.len() as u64).ok_or_else(changed)?;
        let mut reader = self.source.read_from(&segment, before)?;
        let mut end = vec![0; wanted.len()];
        if reader.read_exact(&mut end).is_err() || end != wanted.as_bytes() {
            return Err(changed());
        }
        self.last = Some((position.seq, Chain(position.chain)));
        self.epoch = self.trust.epoch_after(position.seq);
        if self.epoch.is_none_or(|epoch| self.trust.may_have_ended(epoch)) {
            self.epoch = self.epoch_at(&segment, position.offset)?.or(self.epoch);
        }
        let offset = position.offset;
        self.begin(segment);
        // The number of the line in the file is not known, and not the first.
        (self.offset, self.number) = (offset, 1);
        Ok(())
    }

    /// The epoch of the next checkpoint after a position in a segment, as the lines before it tell.
    fn epoch_at(&self, segment: &Segment, offset: u64) -> Result<Option<Epoch>, JournalError> {
        let Ok(opening) = opening(&self.source, &self.trust, segment)? else { return Ok(None) };
        let mut epoch = opening.signed.epoch_named();
        let mut reader = self.source.read_from(segment, 0)?.take(offset);
        let mut bytes = Vec::new();
        loop {
            bytes.clear();
            let read = reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut bytes);
            if read.map_err(failed("cannot read", &segment.path))? == 0 {
                return Ok(Some(epoch));
            }
            // Only checkpoints have a signature, so other lines need not be parsed.
            let text = bytes.trim_ascii_end();
            let line = signed_text(text).and_then(|_| Line::parse(text));
            if let Some(signed) = line.as_ref().and_then(Line::checkpoint) {
                epoch = signed.epoch_after();
            }
        }
    }
}
