//! A store in a directory of its own.

use std::fmt::Debug;
use std::ops::Deref;
use std::path::Path;

/// A store in a temporary directory, which is removed with it.
pub struct InTempDir<S> {
    store: S,
    _dir: tempfile::TempDir,
}

impl<S> InTempDir<S> {
    /// Opens a store in a new directory: in memory, if the system has a place for files there.
    pub fn open<E: Debug>(open: impl FnOnce(&Path) -> Result<S, E>) -> Self {
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a directory");
        Self { store: open(dir.path()).expect("opens"), _dir: dir }
    }
}

impl<S> Deref for InTempDir<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.store
    }
}
