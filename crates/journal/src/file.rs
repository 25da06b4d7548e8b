//! File operations that several modules need.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::JournalError;

/// Device and inode: they identify a file or a directory, even if it was renamed or replaced.
pub(crate) fn file_id(found: &Metadata) -> (u64, u64) {
    (found.dev(), found.ino())
}

/// Turns an I/O error about a file into a [`JournalError`].
pub(crate) fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> JournalError {
    let file = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    move |error| JournalError::File { what, file, error }
}

/// The content of a file; none if it does not exist.
pub(crate) fn read_or_empty(path: &Path) -> io::Result<Vec<u8>> {
    match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        content => content,
    }
}

/// Gives a new file to the owner of its directory. So a command that somebody runs as root leaves nothing that the service
/// cannot read.
pub(crate) fn give_to_owner(path: &Path) -> io::Result<()> {
    let Some(dir) = path.parent() else { return Ok(()) };
    let (dir, file) = (dir.metadata()?, path.metadata()?);
    if (dir.uid(), dir.gid()) == (file.uid(), file.gid()) {
        return Ok(());
    }
    // Only root can, and only root needs to.
    let _ = std::os::unix::fs::chown(path, Some(dir.uid()), Some(dir.gid()));
    Ok(())
}

/// Syncs a directory, so that changes to the file names in it are durable.
pub fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}
