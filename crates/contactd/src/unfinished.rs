//! Files that are still being written have a temporary name: the final name and the id of the writing process.

use std::path::{Path, PathBuf};

/// The temporary name of `whole` until it is complete.
pub(crate) fn name(whole: &Path) -> PathBuf {
    let mut name = whole.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.unfinished", std::process::id()));
    whole.with_file_name(name)
}
