//! Where the last server stopped.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::file::failed;
use crate::line::Line;
use crate::segment::{self, Segment};
use crate::verify;
use contactd_core::{Chain, JournalError};

/// As much of the end of a segment as is looked at first. A line has far less than half of it.
const TAIL: u64 = 64 * 1024;

/// The end of a journal.
pub(crate) struct End {
    /// The segment that it is in, and where it ends there; none where the next line begins a segment.
    pub(crate) segment: Option<(PathBuf, u64)>,
    /// Up to here lines are on disk for certain: a segment's first line is before the next is written.
    pub(crate) synced_through: u64,
    /// The number and the chain value of the last line.
    pub(crate) last: u64,
    pub(crate) chain: Chain,
    /// Bytes behind it that are no whole line.
    pub(crate) torn: u64,
}

/// Finds the end. An unfinished line at the very end is all that a killed server leaves: it was never told to anyone as
/// written, and is cut off. Whatever else is wrong stays as it is, for [`verify`](crate::verify()) to find.
pub(crate) fn end(dir: &Path) -> Result<End, JournalError> {
    let segments = segment::list_all(dir)?;
    let mut before = None;
    for segment in segments.iter().rev() {
        if let Some(end) = of_segment(segment)? {
            // One behind it that holds no line at all: making it had failed, or somebody wrote nonsense into it.
            let torn = end.torn + before.unwrap_or(0);
            let is_newest = before.is_none();
            return Ok(End { segment: end.segment.filter(|_| is_newest), torn, ..end });
        }
        before = Some(before.unwrap_or(0) + set_aside(segment)?);
    }
    Ok(End { segment: None, synced_through: 0, last: 0, chain: Chain::START, torn: before.unwrap_or(0) })
}

/// The end of a segment; none where no line of it can be read.
fn of_segment(segment: &Segment) -> Result<Option<End>, JournalError> {
    if segment.is_compressed {
        let line = verify::last_line(segment)?;
        return Ok(line.map(|line| End {
            segment: None,
            synced_through: line.seq,
            last: line.seq,
            chain: line.chain,
            torn: 0,
        }));
    }
    let path = &segment.path;
    let mut file = File::open(path).map_err(failed("cannot open", path))?;
    let len = file.metadata().map_err(failed("cannot read", path))?.len();
    let mut from = len.saturating_sub(TAIL);
    loop {
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(from)).map_err(failed("cannot read", path))?;
        file.by_ref().read_to_end(&mut bytes).map_err(failed("cannot read", path))?;
        if let Some((line, is_last, end)) = last_line(&bytes, from == 0) {
            let end = from + end as u64;
            let torn = len - end;
            if torn > 0 {
                tracing::warn!(
                    bytes = torn,
                    after = line.seq,
                    "the audit journal ends in an unfinished line, which a killed server left; it is cut off"
                );
            }
            // Behind a line that nobody can read, the next one stands in a segment of its own.
            let open = is_last.then(|| (path.clone(), end));
            let (synced_through, last) = (segment.first, line.seq);
            return Ok(Some(End { segment: open, synced_through, last, chain: line.chain, torn }));
        }
        if from == 0 {
            return Ok(None);
        }
        from = from.saturating_sub(16 * TAIL);
    }
}

/// The last line that can be read, whether it is the last that is whole, and where that one ends.
fn last_line(bytes: &[u8], is_from_start: bool) -> Option<(Line, bool, usize)> {
    let end = bytes.iter().rposition(|&b| b == b'\n')? + 1;
    let begin = if is_from_start { 0 } else { bytes.iter().position(|&b| b == b'\n')? + 1 };
    let lines = bytes.get(begin..end)?.split_inclusive(|&b| b == b'\n').rev();
    lines
        .enumerate()
        .find_map(|(back, text)| Line::parse(text.trim_ascii_end()).map(|line| (line, back == 0, end)))
}

/// Gives a segment without a line another name; says how many bytes it has.
fn set_aside(segment: &Segment) -> Result<u64, JournalError> {
    let path = &segment.path;
    let bytes = path.metadata().map_err(failed("cannot read", path))?.len();
    tracing::error!(file = segment.name(), "a segment of the audit journal holds no line; it is set aside");
    let aside = path.with_extension("damaged");
    fs::rename(path, &aside).map_err(failed("cannot rename", path))?;
    Ok(bytes)
}
