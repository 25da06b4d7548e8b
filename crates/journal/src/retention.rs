//! Old segments: compressing them, and removing them after the retention period.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use contactd_core::{Chain, Timestamp};

use crate::JournalError;
use crate::file::{failed, give_to_owner, sync_dir};
use crate::line::Line;
use crate::lists::{LISTS, ListFiles};
use crate::segment::{self, SEALS, Segment};
use crate::source::Source;
use crate::verify::Verifier;
use crate::walk::{MAX_LINE, Walk};

const LEVEL: i32 = 6;

/// Compresses every segment before the one that begins with line `open`, and returns how many it compressed.
/// Segments that are not whole stay as they are. If this is interrupted, no line is lost or duplicated.
pub fn compress_closed(dir: &Path, open: u64, verifier: &Verifier) -> Result<u64, JournalError> {
    let segments = segment::list(dir)?;
    let closed = segments.iter().filter(|segment| !segment.is_compressed && segment.first < open);
    let mut done = 0;
    for segment in closed {
        if !is_whole(dir, segment, verifier)? {
            continue;
        }
        compress(dir, segment).map_err(failed("cannot compress", &segment.path))?;
        done += 1;
    }
    Ok(done)
}

/// Whether a closed segment is signed and unchanged.
fn is_whole(dir: &Path, segment: &Segment, verifier: &Verifier) -> Result<bool, JournalError> {
    let mut walk = Walk::new(dir.into(), &verifier.roots, None)?;
    if !walk.enter(segment.clone())? {
        return Ok(false);
    }
    while walk.next()?.is_some() {
        if walk.position().segment > segment.first {
            break;
        }
    }
    Ok(!walk.faults.iter().any(|fault| fault.segment <= segment.first))
}

fn compress(dir: &Path, segment: &Segment) -> io::Result<()> {
    let (whole, unfinished) = (segment.compressed_path(), segment.path.with_extension("jsonl.unfinished"));
    let out = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
    let mut encoder = zstd::Encoder::new(BufWriter::with_capacity(1 << 20, out), LEVEL)?;
    encoder.include_checksum(true)?;
    io::copy(&mut File::open(&segment.path)?, &mut encoder)?;
    give_to_owner(&unfinished)?;
    encoder.finish()?.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
    fs::rename(&unfinished, &whole)?;
    sync_dir(dir)?;
    fs::remove_file(&segment.path)
}

/// Copies the journal up to its last checkpoint and its lists into another directory, even while it is being written. Returns
/// the names of the files. Closed segments and lists are hard links where the file system allows it.
pub fn copy(dir: &Path, target: &Path) -> Result<Vec<String>, JournalError> {
    let mut names = Vec::new();
    // First: every seal that has a copy is then in the segments too.
    if dir.join(SEALS).exists() {
        copy_whole_lines(&dir.join(SEALS), &target.join(SEALS), true)
            .map_err(failed("cannot copy", &dir.join(SEALS)))?;
        names.push(SEALS.to_owned());
    }
    let segments = segment::list(dir)?;
    for (at, segment) in segments.iter().enumerate() {
        let is_open = at + 1 == segments.len();
        // It may have been compressed since it was listed.
        let path = if segment.path.exists() { segment.path.clone() } else { segment.compressed_path() };
        if !path.exists() {
            Source::from(dir).list_without(segment.first)?;
            continue;
        }
        let name = path.file_name().unwrap_or_default();
        let copy = target.join(name);
        if is_open || fs::hard_link(&path, &copy).is_err() {
            copy_whole_lines(&path, &copy, is_open && !segment.is_compressed)
                .map_err(failed("cannot copy", &path))?;
        }
        names.push(name.to_string_lossy().into_owned());
    }
    // After the lines that name them. Each is on disk before its line.
    names.extend(ListFiles::of(dir).copy(target).map_err(failed("cannot copy", &dir.join(LISTS)))?);
    sync_dir(target).map_err(failed("cannot sync", target))?;
    Ok(names)
}

/// Copies a file so that only its owner can access it. Of an open segment, leaves out what comes after its last
/// checkpoint: without the keys, nothing would prove it.
fn copy_whole_lines(from: &Path, to: &Path, is_open: bool) -> io::Result<()> {
    let mut from = BufReader::with_capacity(1 << 18, File::open(from)?);
    let copy = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to)?;
    let mut out = BufWriter::with_capacity(1 << 18, copy);
    if !is_open {
        io::copy(&mut from, &mut out)?;
        return out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all();
    }
    let mut waiting = Vec::new();
    while from.read_until(b'\n', &mut waiting)? > 0 && waiting.ends_with(b"\n") {
        let start = waiting[..waiting.len() - 1].iter().rposition(|&b| b == b'\n').map_or(0, |end| end + 1);
        let is_checkpoint =
            Line::parse(waiting[start..].trim_ascii_end()).is_some_and(|line| line.checkpoint().is_some());
        if is_checkpoint {
            out.write_all(&waiting)?;
            waiting.clear();
        }
    }
    out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
}

/// Old segments that can be removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outdated {
    /// The number of their last line.
    pub through: u64,
    /// Its chain value.
    pub chain: Chain,
    segments: Vec<Segment>,
}

/// The closed segments whose lines are all older than `before`, from the first one on. Only segments that are
/// signed and unchanged count: what somebody changed is evidence.
pub fn outdated(
    dir: &Path,
    before: Timestamp,
    verifier: &Verifier,
) -> Result<Option<Outdated>, JournalError> {
    let segments = segment::list(dir)?;
    let closed = &segments[..segments.len().saturating_sub(1)];
    // Look before reading everything: most of the time, nothing is old enough.
    let Some(first) = closed.first() else { return Ok(None) };
    if last_line(first)?.is_none_or(|line| line.at >= before) {
        return Ok(None);
    }
    let mut walk = verifier.walk(&dir.into())?;
    let mut old: Option<Outdated> = None;
    // The newest line of the current segment, and its last one.
    let (mut newest, mut last) = (Timestamp::from_millis(i64::MIN), None);
    let mut at = 0;
    loop {
        let proven = walk.next()?.filter(|proven| proven.is_signed);
        let segment = proven.as_ref().map(|_| walk.position().segment);
        if segment != Some(at) {
            if let (Some(closed), Some((seq, chain))) =
                (closed.iter().find(|closed| closed.first == at), last)
                && walk.faults.is_empty()
                && newest < before
            {
                let mut segments = old.map(|old| old.segments).unwrap_or_default();
                segments.push(closed.clone());
                old = Some(Outdated { through: seq, chain, segments });
            } else if at != 0 {
                break;
            }
            newest = Timestamp::from_millis(i64::MIN);
        }
        let (Some(proven), Some(segment)) = (proven, segment) else { break };
        at = segment;
        newest = newest.max(proven.line.at);
        last = Some((proven.line.seq, proven.line.chain));
    }
    if let Some(fault) = walk.faults.first() {
        tracing::error!(what = %fault.fault, "the audit journal is not whole: from there on, nothing is removed");
    }
    Ok(old)
}

/// The last line of a closed segment, as it is written there; none if it is not valid.
fn last_line(segment: &Segment) -> Result<Option<Line>, JournalError> {
    let mut reader = segment.read_from(0)?;
    let (mut bytes, mut last) = (Vec::new(), Vec::new());
    loop {
        bytes.clear();
        let read = reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut bytes);
        read.map_err(failed("cannot read", &segment.path))?;
        if !bytes.ends_with(b"\n") {
            return Ok(Line::parse(last.trim_ascii_end()));
        }
        std::mem::swap(&mut bytes, &mut last);
    }
}

/// Removes segments. Call this only after the journal has a line that announces the removal and is on disk. Fails if one is
/// still there afterwards, because the directory was moved away for a moment.
pub fn remove(dir: &Path, outdated: &Outdated) -> Result<(), JournalError> {
    for segment in &outdated.segments {
        for path in [&segment.path, &segment.compressed_path()] {
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(failed("cannot remove", path)(error));
                }
                _ => {}
            }
        }
        Source::from(dir).list_without(segment.first)?;
    }
    sync_dir(dir).map_err(failed("cannot sync", dir))
}
