//! What is not whole yet has another name: that of the whole, and which process is at it.

use std::path::{Path, PathBuf};

/// The name of `whole` until it is.
pub(crate) fn name(whole: &Path) -> PathBuf {
    let mut name = whole.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.unfinished", std::process::id()));
    whole.with_file_name(name)
}
