//! The beginning of a segment: a file counts only if a checkpoint in it signs how it begins.

use std::io::{BufRead, ErrorKind, Read};

use contactd_core::Chain;

use crate::JournalError;

use super::MAX_LINE;
use crate::ChainKey;
use crate::line::{Checkpoint, Entry, Line, Mark, is_linked};
use crate::seals::Trust;
use crate::segment::Segment;
use crate::source::Source;

/// How many lines at the beginning of a segment may come before its first checkpoint.
const OPENING_LINES: usize = 8;

/// How a segment begins.
pub(crate) struct Opening {
    pub(crate) line: Line,
    /// The first checkpoint, which signs the beginning.
    pub(crate) signed: Checkpoint,
}

/// Why a file is not read.
pub(crate) enum NotOpened {
    /// It is not there any more. It was removed after its retention period since it was listed, or the directory was
    /// moved.
    Gone,
    /// It is not a segment of this journal, for this reason.
    Foreign(String),
}

/// How a segment begins, if a checkpoint in it signs that.
pub(crate) fn opening(
    source: &Source,
    trust: &Trust,
    segment: &Segment,
) -> Result<Result<Opening, NotOpened>, JournalError> {
    let foreign = |reason: &str| Ok(Err(NotOpened::Foreign(reason.to_owned())));
    let mut reader = match source.read_from(segment, 0) {
        Ok(reader) => reader,
        Err(JournalError::File { error, .. }) if error.kind() == ErrorKind::NotFound => {
            return match segment.path.is_symlink() {
                true => foreign("it is a link to a file that does not exist"),
                false => Ok(Err(NotOpened::Gone)),
            };
        }
        Err(JournalError::File { error, .. }) if segment.is_compressed => {
            return foreign(&format!("it cannot be decompressed: {error}"));
        }
        Err(error) => return Err(error),
    };
    let mut before: Option<Chain> = None;
    let mut lines: Vec<(Vec<u8>, Line, Chain)> = Vec::new();
    for _ in 0..OPENING_LINES {
        let mut bytes = Vec::new();
        let read = reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut bytes);
        if read.is_err() || bytes.pop() != Some(b'\n') {
            break;
        }
        let Some(line) = Line::parse(&bytes) else { break };
        let previous = match before {
            Some(before) => before,
            None => match line.opening().filter(|_| line.seq == segment.first) {
                Some((after, previous)) if after.checked_add(1) == Some(line.seq) => previous,
                _ => return foreign("it does not begin with the line in its name"),
            },
        };
        before = Some(line.chain);
        let signed = line.checkpoint().cloned();
        lines.push((bytes, line, previous));
        if let Some(signed) = signed {
            return Ok(judge(trust, &lines, signed).map_err(NotOpened::Foreign));
        }
    }
    foreign("nothing signs how it begins")
}

fn judge(trust: &Trust, lines: &[(Vec<u8>, Line, Chain)], signed: Checkpoint) -> Result<Opening, String> {
    let (Some((_, first, _)), Some((text, _, previous))) = (lines.first(), lines.last()) else {
        return Err("it is empty".to_owned());
    };
    if let Entry::Mark(Mark::Begun { root, .. }) = &first.entry
        && !trust.trusts(*root)
    {
        return Err(format!("it begins a journal with the root {root}, which is not trusted"));
    }
    let key = ChainKey::new(&signed.key);
    let follows = *previous == signed.previous;
    let is_linked = lines.iter().all(|(text, line, previous)| is_linked(&key, *previous, text, line.chain));
    if !follows || !is_linked || !trust.signs(text, &signed) {
        return Err("the signature of its beginning is wrong".to_owned());
    }
    Ok(Opening { line: first.clone(), signed })
}
