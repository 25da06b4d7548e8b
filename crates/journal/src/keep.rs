//! Old segments: compressing them, and removing them after the retention period.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use contactd_core::{JournalError, Timestamp};

use crate::file::{failed, sync_dir};
use crate::segment::{self, Segment};
use crate::verify;

const LEVEL: i32 = 6;

/// Compresses every segment before the one that begins with line `open`, and returns how many it compressed.
/// If this is interrupted, no line is lost or duplicated.
pub fn compress_closed(dir: &Path, open: u64) -> Result<u64, JournalError> {
    let segments = segment::list(dir)?;
    let closed = segments.iter().filter(|segment| !segment.is_compressed && segment.first < open);
    let mut done = 0;
    for segment in closed {
        compress(dir, segment).map_err(failed("cannot compress", &segment.path))?;
        done += 1;
    }
    Ok(done)
}

fn compress(dir: &Path, segment: &Segment) -> io::Result<()> {
    let (whole, unfinished) = (segment.compressed_path(), segment.path.with_extension("jsonl.unfinished"));
    let out = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
    let mut encoder = zstd::Encoder::new(BufWriter::with_capacity(1 << 20, out), LEVEL)?;
    encoder.include_checksum(true)?;
    io::copy(&mut File::open(&segment.path)?, &mut encoder)?;
    encoder.finish()?.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
    fs::rename(&unfinished, &whole)?;
    sync_dir(dir)?;
    fs::remove_file(&segment.path)
}

/// Copies the journal up to its last complete line into another directory, even while it is being written. Returns
/// the names of the files. Closed segments are hard links where the file system allows it.
pub fn copy(dir: &Path, target: &Path) -> Result<Vec<String>, JournalError> {
    let segments = segment::list(dir)?;
    let mut names = Vec::new();
    for (at, segment) in segments.iter().enumerate() {
        let is_open = at + 1 == segments.len();
        // It may have been compressed since it was listed.
        let path = if segment.path.exists() { segment.path.clone() } else { segment.compressed_path() };
        if !path.exists() {
            // It was removed since it was listed.
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
    sync_dir(target).map_err(failed("cannot sync", target))?;
    Ok(names)
}

/// Copies a file so that only its owner can access it. Leaves out an unfinished last line if the segment is open.
fn copy_whole_lines(from: &Path, to: &Path, is_open: bool) -> io::Result<()> {
    let mut from = File::open(from)?;
    let mut copy = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to)?;
    let (mut len, mut whole) = (0, 0);
    let mut bytes = vec![0; 1 << 18];
    loop {
        let read = from.read(&mut bytes)?;
        if read == 0 {
            break;
        }
        copy.write_all(&bytes[..read])?;
        if let Some(end) = bytes[..read].iter().rposition(|&b| b == b'\n') {
            whole = len + end as u64 + 1;
        }
        len += read as u64;
    }
    if is_open {
        copy.set_len(whole)?;
    }
    copy.sync_all()
}

/// The closed segments whose lines are all older than `before`: the number of their last line, and the segments.
pub fn outdated(dir: &Path, before: Timestamp) -> Result<Option<(u64, Vec<Segment>)>, JournalError> {
    let segments = segment::list(dir)?;
    let mut old = Vec::new();
    let mut through = None;
    for segment in &segments[..segments.len().saturating_sub(1)] {
        match verify::last_line(segment)? {
            Some(line) if line.at < before => {
                through = Some(line.seq);
                old.push(segment.clone());
            }
            Some(_) => break,
            None => {
                tracing::error!(
                    file = segment.name(),
                    "cannot read the last line of this audit journal segment: it and all later segments are kept"
                );
                break;
            }
        }
    }
    Ok(through.map(|through| (through, old)))
}

/// Removes segments. Call this only after the journal has a line that announces the removal.
pub fn remove(dir: &Path, segments: &[Segment]) -> Result<(), JournalError> {
    // The announcement must be on disk before the segments are removed.
    if let Some(open) = segment::list(dir)?.last() {
        File::open(&open.path)
            .and_then(|open| open.sync_data())
            .map_err(failed("cannot sync", &open.path))?;
    }
    for segment in segments {
        for path in [&segment.path, &segment.compressed_path()] {
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(failed("cannot remove", path)(error));
                }
                _ => {}
            }
        }
    }
    sync_dir(dir).map_err(failed("cannot sync", dir))
}
