//! Writes files so that they are on disk when a function returns, readable by their owner only.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

pub(crate) use contactd_journal::sync_dir;

use crate::unfinished;

/// Syncs the directory of a file or directory, so that its name is on disk.
pub(crate) fn sync_parent(path: &Path) -> io::Result<()> {
    sync_dir(path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new(".")))
}

/// Writes a new file, and syncs it.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Creates a file, whole or not at all. If there is one of that name by then, that one stays.
pub(crate) fn create(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let unfinished = unfinished::name(path);
    // A process that was killed may have had the same id.
    let _ = fs::remove_file(&unfinished);
    let linked = write(&unfinished, bytes).and_then(|()| fs::hard_link(&unfinished, path));
    let _ = fs::remove_file(&unfinished);
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => sync_parent(path),
    }
}

/// Copies a file to a new file, and syncs it. Fails if the new file exists.
pub(crate) fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let mut copy = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to)?;
    io::copy(&mut File::open(from)?, &mut copy)?;
    copy.sync_all()
}
