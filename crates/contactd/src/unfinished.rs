//! Files and directories that are still being written have a temporary name: the final name and the id of the writing process.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const ENDING: &str = ".unfinished";

/// The temporary name of `whole` until it is complete.
pub(crate) fn name(whole: &Path) -> PathBuf {
    let mut name = whole.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}{ENDING}", std::process::id()));
    whole.with_file_name(name)
}

/// Everything beside `whole` that has one of its temporary names.
pub(crate) fn all_of(whole: &Path) -> Vec<PathBuf> {
    let parent = whole.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Some(name) = whole.file_name().map(OsStr::as_bytes) else { return Vec::new() };
    let is_temporary = |entry: &OsStr| {
        let rest = entry.as_bytes().strip_prefix(name).and_then(|rest| rest.strip_prefix(b"."));
        let id = rest.and_then(|rest| rest.strip_suffix(ENDING.as_bytes()));
        id.is_some_and(|id| !id.is_empty() && id.iter().all(u8::is_ascii_digit))
    };
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    entries.filter(|entry| is_temporary(&entry.file_name())).map(|entry| entry.path()).collect()
}

/// The path of an unfinished file that is noted in a file.
pub(crate) fn noted_in(note: &Path) -> Option<PathBuf> {
    let path = fs::read(note).ok().map(|bytes| PathBuf::from(OsStr::from_bytes(&bytes)))?;
    (path.is_absolute() && path.as_os_str().as_bytes().ends_with(ENDING.as_bytes())).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_temporary_names_of_the_same_file_are_found() {
        let dir = tempfile::tempdir().expect("a directory");
        let whole = dir.path().join("data");
        let own = name(&whole);
        for other in
            ["data", "data.unfinished", "data.x.unfinished", "data.1.unfinished.old", "other.1.unfinished"]
        {
            fs::create_dir(dir.path().join(other)).expect("a directory");
        }
        assert_eq!(all_of(&whole), [""; 0].map(PathBuf::from));
        fs::create_dir(&own).expect("a directory");
        assert_eq!(all_of(&whole), [own]);
    }
}
