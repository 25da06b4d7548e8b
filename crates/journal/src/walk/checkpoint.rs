//! Starting at the last checkpoint of a segment: it proves itself, so the lines before it need not be read first.

use std::io::{BufRead, Read};

use contactd_core::Chain;

use super::{MAX_LINE, Walk};
use crate::file::failed;
use crate::key_dir::Anchor;
use crate::line::{Line, is_linked, signed_text};
use crate::segment::Segment;
use crate::{ChainKey, JournalError};

/// How many bytes at the end of a segment are searched for a checkpoint. At most a few thousand lines come after it.
const SEARCHED: u64 = 2 << 20;

/// A checkpoint, and where its line ends.
struct Found {
    line: Line,
    end: u64,
}

impl Walk {
    /// Goes to the end of the last checkpoint of the segment that was entered. Returns its number and its chain value; `None` if it is
    /// not found, and then the walk is where it was.
    ///
    /// It has to be the one that was `anchor`ed or, if that was not written, the one before it.
    pub(crate) fn skip_to_last_checkpoint(
        &mut self,
        anchor: &Anchor,
    ) -> Result<Option<(u64, Chain)>, JournalError> {
        let Some(segment) = self.current.as_deref().filter(|segment| !segment.is_compressed).cloned() else {
            return Ok(None);
        };
        let Some(Found { line, end }) = self.last_checkpoint(&segment, anchor)? else { return Ok(None) };
        let Some(signed) = line.checkpoint() else { return Ok(None) };
        self.trust.follow(signed);
        self.epoch = Some(signed.epoch_after());
        self.next_number = Some(signed.number.saturating_add(1));
        self.last = Some((line.seq, line.chain));
        self.begin(segment);
        // The number of the line in the file is not known, and not the first.
        (self.offset, self.number) = (end, 1);
        Ok(self.last)
    }

    fn last_checkpoint(&self, segment: &Segment, anchor: &Anchor) -> Result<Option<Found>, JournalError> {
        let unreadable = || failed("cannot read", &segment.path);
        let length = segment.path.metadata().map_err(unreadable())?.len();
        let mut end = length.saturating_sub(SEARCHED);
        let mut reader = self.source.read_from(segment, end)?;
        let (mut found, mut bytes) = (None, Vec::new());
        loop {
            bytes.clear();
            let read = reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut bytes);
            end += read.map_err(unreadable())? as u64;
            let Some(text) = bytes.strip_suffix(b"\n") else { return Ok(found) };
            // Only checkpoints have a signature, so other lines need not be parsed. The first one may be half a line.
            let line = signed_text(text).and_then(|_| Line::parse(text));
            if let Some(line) = line.filter(|line| self.is_last_checkpoint(text, line, anchor)) {
                found = Some(Found { line, end });
            }
        }
    }

    /// Whether this checkpoint is good, and the last one or the one before it, by what is noted about the last one.
    fn is_last_checkpoint(&self, text: &[u8], line: &Line, anchor: &Anchor) -> bool {
        let Some(signed) = line.checkpoint() else { return false };
        let is_noted = (signed.number, signed.previous) == (anchor.number, anchor.chain)
            && anchor.seq.checked_add(1) == Some(line.seq);
        let is_before = signed.number.checked_add(1) == Some(anchor.number);
        signed.root == anchor.root
            && (is_noted || is_before)
            && self.trust.signs(text, signed)
            && is_linked(&ChainKey::new(&signed.key), signed.previous, text, line.chain)
    }
}
