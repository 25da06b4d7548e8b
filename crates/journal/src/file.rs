//! What every part does with files.

use std::fs::File;
use std::io;
use std::path::Path;

use contactd_core::JournalError;

/// Turns a system error about a file into ours.
pub(crate) fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> JournalError {
    let file = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    move |error| JournalError::File { what, file, error }
}

/// Makes the names in a directory durable.
pub fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}
