//! Old segments: compressed, and removed when their time is over.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use contactd_core::{JournalError, Timestamp};

use crate::file::{failed, sync_dir};
use crate::segment::{self, Segment};
use crate::verify;

const LEVEL: i32 = 6;

/// Compresses every segment before the one that begins with line `open`. Whatever ends this half way, no line is lost or
/// there twice.
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

/// Copies the journal up to its last whole line into another directory, also while it is written; gives the names of the
/// files. Segments that are closed stay as they are and share their bytes where the file system lets them.
pub fn copy(dir: &Path, target: &Path) -> Result<Vec<String>, JournalError> {
    let segments = segment::list(dir)?;
    let mut names = Vec::new();
    for (at, segment) in segments.iter().enumerate() {
        let is_open = at + 1 == segments.len();
        // It may have been compressed since it was listed.
        let path = if segment.path.exists() { segment.path.clone() } else { segment.compressed_path() };
        if !path.exists() {
            // Its time was over just now.
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

/// Copies a file, for its owner only; an open one without the line that is being written.
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

/// The segments whose lines are all older than `before`, never the open one: the last line of the newest of them, and
/// the segments themselves.
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
                    "no line of this segment of the audit journal can be read: neither it nor what came after it is removed"
                );
                break;
            }
        }
    }
    Ok(through.map(|through| (through, old)))
}

/// Removes segments. To be called once the journal says that it will be done.
pub fn remove(dir: &Path, segments: &[Segment]) -> Result<(), JournalError> {
    // What says so is on disk before they go.
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
