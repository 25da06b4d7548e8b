//! The data directory: made if it is missing, for its owner only.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use contactd_core::DigestKeys;
use contactd_journal::ChainKey;
use contactd_store_sqlite::SqliteStore;

use crate::keys::{self, KeySources};

/// A data directory that is there.
#[derive(Clone, Debug)]
pub(crate) struct DataDir(PathBuf);

impl DataDir {
    /// Makes the directory and `keys/` in it, if they are missing.
    pub(crate) fn make(path: &Path) -> anyhow::Result<Self> {
        for dir in [path.to_owned(), path.join("keys")] {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&dir)
                .with_context(|| format!("cannot make the data directory {}", dir.display()))?;
        }
        Ok(Self(path.to_owned()))
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

    /// Opens the store and its keys, and sees that they belong together.
    pub(crate) fn open(&self, keys: &KeySources) -> anyhow::Result<(SqliteStore, DigestKeys)> {
        let store = SqliteStore::open(&self.0)
            .with_context(|| format!("cannot open the store in {}", self.0.display()))?;
        // A store that has had a key gets no new one in its place.
        let expected = store.fact("digest_key")?;
        let keys = keys::digest(&keys.digest, &self.keys(), expected.is_none())?;
        if let Some(expected) = expected.filter(|expected| !keys.hold(expected)) {
            bail!(
                "the keys in {} are not those of this store: with them, people who opted out would be disclosed. \
                 Put back the key with fingerprint {expected}",
                self.keys().display()
            );
        }
        store.remember("digest_key", keys.newest_id())?;
        Ok((store, keys))
    }

    /// The key of the journal. One that has lines gets no new one.
    pub(crate) fn audit_key(&self, keys: &KeySources) -> anyhow::Result<ChainKey> {
        let may_make = contactd_journal::segments(&self.audit())?.is_empty();
        keys::audit(&keys.audit, &self.keys(), may_make)
    }
}
