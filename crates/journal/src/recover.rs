//! Finds where the last server stopped.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::file::failed;
use crate::line::Line;
use crate::segment::{self, Segment};
use crate::verify;
use contactd_core::{Chain, JournalError};

/// How many bytes at the end of a segment are read first. A line is much shorter than half of this.
const TAIL: u64 = 64 * 1024;

/// The end of a journal.
pub(crate) struct JournalEnd {
    /// The last segment and the end of its last complete line; none if the next line must begin a new segment.
    pub(crate) segment: Option<(PathBuf, u64)>,
    /// Lines up to this one are certainly on disk: a segment's first line is synced before the next is written.
    pub(crate) synced_through: u64,
    /// The number and the chain value of the last line.
    pub(crate) last: u64,
    pub(crate) chain: Chain,
    /// How many bytes follow it that are not a complete line.
    pub(crate) torn: u64,
}

/// Finds the end. A killed server leaves at most an unfinished line at the very end. That line was never
/// acknowledged, so it is cut off. Any other damage is kept for [`verify`](crate::verify()) to find.
pub(crate) fn end(dir: &Path) -> Result<JournalEnd, JournalError> {
    let segments = segment::list_all(dir)?;
    let mut before = None;
    for segment in segments.iter().rev() {
        if let Some(end) = of_segment(segment)? {
            // Later segments have no valid line: creating them failed, or somebody overwrote them.
            let torn = end.torn + before.unwrap_or(0);
            let is_newest = before.is_none();
            return Ok(JournalEnd { segment: end.segment.filter(|_| is_newest), torn, ..end });
        }
        before = Some(before.unwrap_or(0) + set_aside(segment)?);
    }
    Ok(JournalEnd {
        segment: None,
        synced_through: 0,
        last: 0,
        chain: Chain::START,
        torn: before.unwrap_or(0),
    })
}

/// The end of a segment; none if it has no valid line.
fn of_segment(segment: &Segment) -> Result<Option<JournalEnd>, JournalError> {
    if segment.is_compressed {
        let line = verify::last_line(segment)?;
        return Ok(line.map(|line| JournalEnd {
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
                    "the audit journal ends with an unfinished line left by a killed server; it is cut off"
                );
            }
            // After an invalid line, the next line begins a new segment.
            let open = is_last.then(|| (path.clone(), end));
            let (synced_through, last) = (segment.first, line.seq);
            return Ok(Some(JournalEnd { segment: open, synced_through, last, chain: line.chain, torn }));
        }
        if from == 0 {
            return Ok(None);
        }
        from = from.saturating_sub(16 * TAIL);
    }
}

/// The last valid line, whether it is also the last complete one, and where the last complete one ends.
fn last_line(bytes: &[u8], is_from_start: bool) -> Option<(Line, bool, usize)> {
    let end = bytes.iter().rposition(|&b| b == b'\n')? + 1;
    let begin = if is_from_start { 0 } else { bytes.iter().position(|&b| b == b'\n')? + 1 };
    let lines = bytes.get(begin..end)?.split_inclusive(|&b| b == b'\n').rev();
    lines
        .enumerate()
        .find_map(|(back, text)| Line::parse(text.trim_ascii_end()).map(|line| (line, back == 0, end)))
}

/// Renames a segment without a valid line. Returns its size in bytes.
fn set_aside(segment: &Segment) -> Result<u64, JournalError> {
    let path = &segment.path;
    let bytes = path.metadata().map_err(failed("cannot read", path))?.len();
    tracing::error!(
        file = segment.name(),
        "an audit journal segment has no valid line; it is renamed to .damaged"
    );
    let aside = path.with_extension("damaged");
    fs::rename(path, &aside).map_err(failed("cannot rename", path))?;
    Ok(bytes)
}
