//! File operations that several modules need.

use std::fs::File;
use std::io;
use std::path::Path;

use contactd_core::JournalError;

/// Turns an I/O error about a file into a [`JournalError`].
pub(crate) fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> JournalError {
    let file = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    move |error| JournalError::File { what, file, error }
}

/// Syncs a directory, so that changes to the file names in it are durable.
pub fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}
