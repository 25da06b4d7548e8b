//! The data directory: created if it is missing, accessible to its owner only.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::Context;

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

    /// A directory that exists, as it is.
    pub(crate) fn existing(path: &Path) -> Self {
        Self(path.to_owned())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn keys(&self) -> PathBuf {
        self.0.join("keys")
    }

    pub(crate) fn audit(&self) -> PathBuf {
        self.0.join("audit")
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.0.join("control.sock")
    }
}
