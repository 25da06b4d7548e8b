//! The data directory: only a few commands create it if it is missing; accessible to its owner only.

use std::fs::DirBuilder;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::engine::Files;

/// A data directory that exists.
#[derive(Clone, Debug)]
pub(crate) struct DataDir(PathBuf);

impl DataDir {
    /// Creates the directory and `keys/` in it, if they are missing.
    pub(crate) fn make(path: &Path) -> anyhow::Result<Self> {
        for dir in [path.to_owned(), path.join("keys")] {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&dir)
                .with_context(|| format!("cannot use or create the data directory {}", dir.display()))?;
        }
        Ok(Self(path.to_owned()))
    }

    /// Checks that there is one. Creates nothing.
    pub(crate) fn require(path: &Path) -> Result<(), NoDataDir> {
        if Files::is_in(path) { Ok(()) } else { Err(NoDataDir(path.to_owned())) }
    }

    /// A directory that exists, as it is.
    pub(crate) fn existing(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// If root works on the directory of another user, gives that user what root created in it: otherwise the user's server
    /// could not open it.
    pub(crate) fn give_to_owner(&self) {
        let Ok(dir) = self.0.metadata() else { return };
        if dir.uid() == 0 || !rustix::process::geteuid().is_root() {
            return;
        }
        for path in [self.0.clone(), self.keys()] {
            let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
            for entry in entries.filter(|entry| entry.metadata().is_ok_and(|metadata| metadata.uid() == 0)) {
                // If it fails, this command can work all the same.
                let _ = std::os::unix::fs::lchown(entry.path(), Some(dir.uid()), Some(dir.gid()));
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Where it is, for messages: the whole path.
    pub(crate) fn shown(&self) -> String {
        absolute(&self.0).display().to_string()
    }

    /// Where temporary files with personal data go: this directory if it exists, because only its owner can read it.
    pub(crate) fn room(&self) -> PathBuf {
        if self.0.is_dir() { self.0.clone() } else { tempfile::env::temp_dir() }
    }

    pub(crate) fn keys(&self) -> PathBuf {
        self.0.join("keys")
    }

    pub(crate) fn audit(&self) -> PathBuf {
        self.0.join("audit")
    }

    /// Where the console keeps what was uploaded, and what its jobs made.
    pub(crate) fn console(&self) -> PathBuf {
        self.0.join("console")
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.0.join("control.sock")
    }
}

/// There is no data directory where one was expected.
#[derive(Debug, thiserror::Error)]
#[error("{}; {}", self.message(), Self::ADVICE)]
pub(crate) struct NoDataDir(PathBuf);

impl NoDataDir {
    /// What to do about it.
    pub(crate) const ADVICE: &'static str =
        "give the right one with --data DIR (or CONTACTD_DATA), or make one with `contactd import`";

    /// What is wrong, without the advice.
    pub(crate) fn message(&self) -> String {
        let path = absolute(&self.0);
        let why = if path.exists() { ": it has no contactd.db" } else { "" };
        format!("there is no data directory at {}{why}", path.display())
    }
}

/// The whole path; as it was given if the current directory is gone.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
