//! The beginning of a segment: a file counts only if a checkpoint in it signs how it begins.

use std::io::{BufRead, Read};

use contactd_core::{Chain, JournalError};

use super::{GONE, MAX_LINE, Walk};
use crate::ChainKey;
use crate::line::{Checkpoint, Entry, Line, Mark, is_linked};
use crate::segment::Segment;

/// How many lines at the beginning of a segment may come before its first checkpoint.
const OPENING_LINES: usize = 8;

/// How a segment begins.
pub(crate) struct Opening {
    pub(crate) line: Line,
    /// The first checkpoint, which signs the beginning.
    pub(crate) signed: Checkpoint,
}

impl Walk {
    /// How a segment begins, if a checkpoint in it signs that; otherwise why it is not a segment of this journal.
    pub(crate) fn opening(&self, segment: &Segment) -> Result<Result<Opening, String>, JournalError> {
        let mut reader = match segment.read() {
            Ok(reader) => reader,
            // It was removed after its retention period since it was listed.
            Err(JournalError::File { error, .. }) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Err(GONE.to_owned()));
            }
            Err(JournalError::File { error, .. }) if segment.is_compressed => {
                return Ok(Err(format!("it cannot be decompressed: {error}")));
            }
            Err(error) => return Err(error),
        };
        let mut before: Option<Chain> = None;
        let mut lines: Vec<(Vec<u8>, Line, Chain)> = Vec::new();
        for _ in 0..OPENING_LINES {
            let mut bytes = Vec::new();
            let read = reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut bytes);
            let Some((text, line)) = read
                .ok()
                .and_then(|_| bytes.strip_suffix(b"\n"))
                .and_then(|text| Some((text.to_vec(), Line::parse(text)?)))
            else {
                break;
            };
            let previous = match before {
                Some(before) => before,
                None => match line.opening().filter(|_| line.seq == segment.first) {
                    Some((after, previous)) if after.checked_add(1) == Some(line.seq) => previous,
                    _ => return Ok(Err("it does not begin with the line in its name".to_owned())),
                },
            };
            before = Some(line.chain);
            let signed = line.checkpoint().cloned();
            lines.push((text, line, previous));
            if let Some(signed) = signed {
                return Ok(self.judge(&lines, signed));
            }
        }
        Ok(Err("nothing signs how it begins".to_owned()))
    }

    fn judge(&self, lines: &[(Vec<u8>, Line, Chain)], signed: Checkpoint) -> Result<Opening, String> {
        let (Some((_, first, _)), Some((text, _, _))) = (lines.first(), lines.last()) else {
            return Err("it is empty".to_owned());
        };
        if let Entry::Mark(Mark::Begun { root, .. }) = &first.entry
            && !self.trust.trusts(*root)
        {
            return Err(format!("it begins a journal with the root {root}, which is not trusted"));
        }
        let key = ChainKey::new(&signed.key);
        let follows = lines.last().is_some_and(|(_, _, previous)| *previous == signed.previous);
        let is_linked =
            lines.iter().all(|(text, line, previous)| is_linked(&key, *previous, text, line.chain));
        if !follows || !is_linked || !self.trust.signs(text, &signed) {
            return Err("the signature of its beginning is wrong".to_owned());
        }
        Ok(Opening { line: first.clone(), signed })
    }
}
