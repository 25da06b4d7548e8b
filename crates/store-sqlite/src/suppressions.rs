//! Suppressions: digests and the ids of their keys.

use async_trait::async_trait;
use contactd_core::store::{Noted, Stored, Suppressions};
use contactd_core::{SubjectDigest, Timestamp};
use rusqlite::{OptionalExtension, Result, Statement, params};

use crate::{SqliteStore, outbox};

/// Suppresses a digest, with its key, since a time.
pub(crate) const SUPPRESS: &str =
    "INSERT OR IGNORE INTO suppressions (digest, key, suppressed_at) VALUES (?1, ?2, ?3)";

#[async_trait]
impl Suppressions for SqliteStore {
    async fn suppress(&self, subjects: &[SubjectDigest], at: Timestamp, entry: Noted<'_>) -> Stored<u64> {
        self.for_each(subjects, entry, SUPPRESS, |statement, subject| {
            statement.execute(params![subject.bytes, subject.key, at.millis()])
        })
    }

    async fn unsuppress(&self, subjects: &[SubjectDigest], entry: Noted<'_>) -> Stored<u64> {
        let delete = "DELETE FROM suppressions WHERE digest = ?1 AND key = ?2";
        self.for_each(subjects, entry, delete, |statement, subject| {
            statement.execute(params![subject.bytes, subject.key])
        })
    }

    async fn find_suppression(&self, subjects: &[SubjectDigest]) -> Stored<Option<Timestamp>> {
        self.with_main(|main| {
            let mut find = main.prepare_cached(
                "SELECT suppressed_at FROM suppressions WHERE digest = ?1 AND key = ?2
                    UNION ALL SELECT suppressed_at FROM held_suppressions WHERE digest = ?1 AND key = ?2",
            )?;
            let find = |subject: &SubjectDigest| {
                find.query_row(params![subject.bytes, subject.key], |row| row.get(0)).optional()
            };
            let found = subjects.iter().map(find).collect::<Result<Vec<Option<i64>>>>()?;
            Ok(found.into_iter().flatten().min().map(Timestamp::from_millis))
        })
    }

    async fn list_suppressions(&self) -> Stored<Vec<SubjectDigest>> {
        self.with_main(|main| {
            let list =
                "SELECT key, digest FROM suppressions UNION ALL SELECT key, digest FROM held_suppressions";
            let mut list = main.prepare_cached(list)?;
            list.query_map((), |row| Ok(SubjectDigest { key: row.get(0)?, bytes: row.get(1)? }))?.collect()
        })
    }
}

impl SqliteStore {
    /// Runs a statement for each subject in one transaction; returns how many rows it changed.
    fn for_each(
        &self,
        subjects: &[SubjectDigest],
        entry: Noted<'_>,
        sql: &str,
        run: impl Fn(&mut Statement<'_>, &SubjectDigest) -> Result<usize>,
    ) -> Stored<u64> {
        let touched = self.change_access(|transaction| {
            let mut statement = transaction.prepare_cached(sql)?;
            let run = |subject| run(&mut statement, subject);
            let touched = subjects.iter().map(run).sum::<Result<usize>>()?;
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
