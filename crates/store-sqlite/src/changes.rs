//! Noticing commits of this process and of others.

use std::path::Path;

use async_trait::async_trait;
use contactd_core::store::{ChangeNumbers, Changes, Stored};
use rusqlite::{Connection, Result, Transaction};

use crate::{SqliteStore, connection};

/// Connections used only for watching: they never wait for a writer.
pub(crate) struct Watch {
    main: Connection,
    details: Connection,
}

impl Watch {
    pub(crate) fn open(main: &Path, details: &Path) -> Result<Self> {
        // Not read-only, so that the last connection that is closed can empty the write-ahead log and remove it.
        Ok(Self { main: connection::writer(main)?, details: connection::writer(details)? })
    }

    fn read(&self) -> Result<ChangeNumbers> {
        let mut number = self.main.prepare_cached("SELECT number FROM changes")?;
        let access = number.query_row((), |row| row.get(0))?;
        // Changes with every commit to the file, whatever was written.
        let mut version = self.details.prepare_cached("PRAGMA data_version")?;
        Ok(ChangeNumbers { access, details: version.query_row((), |row| row.get(0))? })
    }
}

/// Counts a change to tokens or suppressions.
pub(crate) fn count(transaction: &Transaction<'_>) -> Result<()> {
    transaction.prepare_cached("UPDATE changes SET number = number + 1")?.execute(()).map(|_| ())
}

#[async_trait]
impl Changes for SqliteStore {
    async fn changes(&self) -> Stored<ChangeNumbers> {
        connection::run_blocking(|| self.watch.lock().read())
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use contactd_core::store::{DetailFilter, Details, ImportPlan, Importing, StoreError, Suppressions};
    use contactd_core::{Profile, SubjectDigest, Timestamp};

    use super::*;
    use crate::testing::now;

    /// An import holds the write lock and a removal waits for it; an opt-out is still noticed at once.
    #[test]
    fn watching_for_changes_never_waits_for_a_writer() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = SqliteStore::open(dir.path()).expect("opens");
        let at = Timestamp::from_seconds(0);
        let import = now(store.begin_import(&ImportPlan::of(1, at))).expect("begins");
        let ada = Profile::from_key("linkedin.com/in/ada-quell");
        let before = now(store.changes()).expect("watches");
        std::thread::scope(|scope| {
            let removing = scope.spawn(|| now(store.remove_details(&ada, &DetailFilter::all(), None)));
            while !removing.is_finished() {
                let began = Instant::now();
                now(store.suppress(&[SubjectDigest { key: "k".to_owned(), bytes: [1; 32] }], at, None))
                    .expect("suppresses");
                assert_ne!(now(store.changes()).expect("watches").access, before.access);
                assert!(began.elapsed() < Duration::from_millis(250), "{:?}", began.elapsed());
            }
            assert!(
                matches!(removing.join().expect("ends"), Err(StoreError::Busy)),
                "the import still holds the write lock"
            );
        });
        drop(import);
        assert_eq!(now(store.remove_details(&ada, &DetailFilter::all(), None)).expect("removes"), 0);
    }
}
