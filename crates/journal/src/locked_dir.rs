//! The directory of a journal that is open for appending.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::JournalError;
use crate::file::{failed, file_id, sync_dir};

/// The journal's directory. Nothing is begun in it unless its path leads to it: if somebody moves it away or puts another
/// one in its place, lines would get to where nobody looks for them.
pub(crate) struct LockedDir {
    path: PathBuf,
    /// Locked as long as this exists, because a second writer would truncate lines that it did not write.
    file: File,
}

impl LockedDir {
    /// Locks a directory, and creates it if it is missing.
    pub(crate) fn open(path: &Path) -> Result<Self, JournalError> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(failed("cannot create the directory", path))?;
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        sync_dir(parent.unwrap_or(Path::new("."))).map_err(failed("cannot sync", path))?;
        let file = File::open(path).map_err(failed("cannot open", path))?;
        if file.try_lock().is_err() {
            return Err(JournalError::InUse);
        }
        Ok(Self { path: path.to_owned(), file })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Checks that the path leads to this directory.
    pub(crate) fn check_place(&self) -> io::Result<()> {
        match fs::metadata(&self.path) {
            Ok(found) if file_id(&found) == file_id(&self.file.metadata()?) => Ok(()),
            Ok(_) => Err(io::Error::other(
                "another directory is where its own was: move its own back, or restart the server to use the other one",
            )),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(io::Error::new(error.kind(), "its directory was moved or removed: move it back"))
            }
            Err(error) => Err(error),
        }
    }

    /// Syncs it, so that changes to the file names in it are durable.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.file.sync_all()
    }
}
