//! Where the last server stopped.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::file::failed;
use crate::line::{Line, is_linked};
use crate::segment::{self, Segment};
use crate::verify;
use crate::{Chain, ChainKey, JournalError};

/// As much of the end of a segment as is looked at. A line has far less than half of it.
const TAIL: u64 = 64 * 1024;

/// The end of a journal.
pub(crate) struct End {
    /// The segment that it is in, and where it ends there; none where the next line begins a segment.
    pub(crate) segment: Option<(PathBuf, u64)>,
    /// The number and the chain value of the last line.
    pub(crate) last: u64,
    pub(crate) chain: Chain,
    /// Bytes behind it that are no line.
    pub(crate) torn: u64,
}

/// Finds the end. What stands behind the last good line was never told to anyone as written, or the disk lost it: the
/// next segment begins with a line that says so.
pub(crate) fn end(dir: &Path, key: &ChainKey) -> Result<End, JournalError> {
    let segments = segment::list(dir)?;
    let Some(newest) = segments.last() else {
        return Ok(End { segment: None, last: 0, chain: Chain::START, torn: 0 });
    };
    if newest.is_compressed {
        // The open one was taken away by hand. What is left is gone on with.
        let head = verify::last_line(newest)?;
        return Ok(match head {
            Some(line) => End { segment: None, last: line.seq, chain: line.chain, torn: 0 },
            None => End { segment: None, last: newest.first.saturating_sub(1), chain: Chain::START, torn: 0 },
        });
    }
    match tail(newest, key)? {
        Some(end) => Ok(end),
        // Not even its first line is good: it is as if it had not been begun.
        None => {
            let before = segments.iter().rev().nth(1);
            let line = before.map(verify::last_line).transpose()?.flatten();
            Ok(End {
                segment: None,
                last: line.as_ref().map_or(newest.first.saturating_sub(1), |line| line.seq),
                chain: line.map_or(Chain::START, |line| line.chain),
                torn: newest.path.metadata().map_or(0, |meta| meta.len()),
            })
        }
    }
}

/// The last good line of an open segment, whatever stands behind it.
fn tail(segment: &Segment, key: &ChainKey) -> Result<Option<End>, JournalError> {
    let path = &segment.path;
    let mut file = File::open(path).map_err(failed("cannot open", path))?;
    let len = file.metadata().map_err(failed("cannot read", path))?.len();
    let mut from = len.saturating_sub(TAIL);
    loop {
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(from)).map_err(failed("cannot read", path))?;
        file.by_ref().read_to_end(&mut bytes).map_err(failed("cannot read", path))?;
        if let Some((line, end)) = last_good(&bytes, from == 0, key) {
            let (end, torn) = (from + end as u64, len - (from + end as u64));
            if torn > 0 {
                tracing::warn!(
                    bytes = torn,
                    after = line.seq,
                    "the audit journal ends in an unfinished line, which a killed server left; it is cut off"
                );
            }
            let segment = Some((path.clone(), end));
            return Ok(Some(End { segment, last: line.seq, chain: line.chain, torn }));
        }
        if from == 0 {
            return Ok(None);
        }
        from = from.saturating_sub(16 * TAIL);
    }
}

/// The last line in `bytes` that is linked to the one before it, and where it ends. The first line of a segment is good
/// if it can be read.
fn last_good(bytes: &[u8], is_whole: bool, key: &ChainKey) -> Option<(Line, usize)> {
    let mut good = None;
    let mut before: Option<Chain> = None;
    let mut at = if is_whole { 0 } else { 1 + bytes.iter().position(|&b| b == b'\n')? };
    while let Some(len) = bytes[at..].iter().position(|&b| b == b'\n') {
        let text = &bytes[at..at + len];
        let Some(line) = Line::parse(text) else { break };
        if before.is_some_and(|before| !is_linked(key, before, text, line.chain)) {
            break;
        }
        at += len + 1;
        before = Some(line.chain);
        good = Some((line, at));
    }
    good
}
