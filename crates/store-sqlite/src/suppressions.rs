//! Suppressions: digests and the ids of their keys.

use contactd_core::store::{Noted, StoreError, StoreFuture, Suppressions};
use contactd_core::{SubjectDigest, Timestamp};
use rusqlite::{OptionalExtension, Statement, params};

use crate::{SqliteStore, connection, outbox};

impl Suppressions for SqliteStore {
    fn suppress(&self, subjects: &[SubjectDigest], at: Timestamp, entry: Noted<'_>) -> impl StoreFuture<u64> {
        let insert = "INSERT OR IGNORE INTO suppressions (digest, key, suppressed_at) VALUES (?1, ?2, ?3)";
        std::future::ready(self.for_each(subjects, entry, insert, |statement, subject| {
            statement.execute(params![subject.bytes, subject.key, at.millis()])
        }))
    }

    fn unsuppress(&self, subjects: &[SubjectDigest], entry: Noted<'_>) -> impl StoreFuture<u64> {
        let delete = "DELETE FROM suppressions WHERE digest = ?1 AND key = ?2";
        std::future::ready(self.for_each(subjects, entry, delete, |statement, subject| {
            statement.execute(params![subject.bytes, subject.key])
        }))
    }

    fn find_suppression(&self, subjects: &[SubjectDigest]) -> impl StoreFuture<Option<Timestamp>> {
        let main = self.main();
        let find = |subject: &SubjectDigest| {
            main.prepare_cached("SELECT suppressed_at FROM suppressions WHERE digest = ?1 AND key = ?2")?
                .query_row(params![subject.bytes, subject.key], |row| row.get(0))
                .optional()
        };
        let found = subjects.iter().map(find).collect::<rusqlite::Result<Vec<Option<i64>>>>();
        let earliest = found.map(|found| found.into_iter().flatten().min().map(Timestamp::from_millis));
        std::future::ready(earliest.map_err(connection::error))
    }

    fn list_suppressions(&self) -> impl StoreFuture<Vec<SubjectDigest>> {
        let main = self.main();
        let list = || -> rusqlite::Result<Vec<SubjectDigest>> {
            let mut list = main.prepare_cached("SELECT key, digest FROM suppressions")?;
            list.query_map((), |row| Ok(SubjectDigest { key: row.get(0)?, bytes: row.get(1)? }))?.collect()
        };
        std::future::ready(list().map_err(connection::error))
    }
}

impl SqliteStore {
    /// Runs a statement for each subject in one transaction; returns how many rows it changed.
    fn for_each(
        &self,
        subjects: &[SubjectDigest],
        entry: Noted<'_>,
        sql: &str,
        run: impl Fn(&mut Statement<'_>, &SubjectDigest) -> rusqlite::Result<usize>,
    ) -> Result<u64, StoreError> {
        let touched = self.change_access(|transaction| {
            let mut statement = transaction.prepare_cached(sql)?;
            let run = |subject| run(&mut statement, subject);
            let touched = subjects.iter().map(run).sum::<rusqlite::Result<usize>>()?;
            outbox::add(
                transaction,
                entry,
                &[("subjects", subjects.len() as u64), ("changed", touched as u64)],
            )?;
            Ok(touched)
        })?;
        Ok(touched as u64)
    }
}
