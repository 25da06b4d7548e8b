//! Runs the suite that every engine has to pass.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

use contactd_store_sqlite::SqliteStore;

/// A store in a temporary directory that is deleted when it is dropped.
struct InTempDir {
    store: SqliteStore,
    _dir: tempfile::TempDir,
}

impl std::ops::Deref for InTempDir {
    type Target = SqliteStore;

    fn deref(&self) -> &SqliteStore {
        &self.store
    }
}

async fn open() -> InTempDir {
    let dir = tempfile::tempdir().expect("a directory");
    InTempDir { store: SqliteStore::open(dir.path()).expect("opens"), _dir: dir }
}

contactd_conformance::local_conformance!(open);
