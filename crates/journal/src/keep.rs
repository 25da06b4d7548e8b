//! Old segments: compressed, and removed when their time is over.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use contactd_core::Timestamp;

use crate::file::{failed, sync_dir};
use crate::segment::{self, Segment};
use crate::{JournalError, verify};

const LEVEL: i32 = 6;

/// Compresses every segment but the open one. Whatever ends this half way, no line is lost or there twice.
pub fn compress_closed(dir: &Path) -> Result<u64, JournalError> {
    let segments = segment::list(dir)?;
    let closed = segments.iter().rev().skip(1).filter(|segment| !segment.is_compressed);
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

/// Copies every whole line into another directory, also while the journal is written; gives the names of the files.
pub fn copy(dir: &Path, target: &Path) -> Result<Vec<String>, JournalError> {
    let mut names = Vec::new();
    for segment in segment::list(dir)? {
        let name = format!("{:012}.jsonl", segment.first);
        let path = target.join(&name);
        let mut whole = Vec::new();
        segment.read()?.read_to_end(&mut whole).map_err(failed("cannot read", &segment.path))?;
        whole.truncate(whole.iter().rposition(|&b| b == b'\n').map_or(0, |end| end + 1));
        fs::write(&path, &whole).map_err(failed("cannot write", &path))?;
        names.push(name);
    }
    Ok(names)
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
            _ => break,
        }
    }
    Ok(through.map(|through| (through, old)))
}

/// Removes segments. To be called once the journal says that it will be done.
pub fn remove(dir: &Path, segments: &[Segment]) -> Result<(), JournalError> {
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
