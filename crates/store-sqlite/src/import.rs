//! Imports: one transaction, so that a kill at any moment leaves before or after.

use std::collections::HashMap;
use std::path::Path;

use contactd_core::store::{Import, ImportSummary, PutCounts, StoreError};
use contactd_core::{ContactValue, Detail, Kind, Profile, Timestamp};
use rusqlite::{Connection, OptionalExtension, params};

use crate::connection;
use crate::details::{kind_number, label_number, list};

/// Stands for an absent `observed_at`, which counts as oldest.
pub(crate) const NEVER_OBSERVED: i64 = -(1 << 39);

/// An import under way, on a connection of its own. Dropping it rolls it back.
pub struct SqliteImport {
    connection: Connection,
    id: i64,
    at: Timestamp,
    writing: Writing,
}

impl SqliteImport {
    pub(crate) fn begin(file: &Path, at: Timestamp) -> Result<Self, StoreError> {
        let connection = connection::writer(file)?;
        connection.execute_batch("PRAGMA cache_size = -65536; BEGIN IMMEDIATE").map_err(connection::error)?;
        let id = connection
            .query_row("SELECT coalesce(max(id), 0) + 1 FROM imports", (), |row| row.get(0))
            .map_err(connection::error)?;
        Ok(Self { connection, id, at, writing: Writing::default() })
    }

    fn put_all(&mut self, profile: &Profile, details: &[Detail]) -> rusqlite::Result<PutCounts> {
        let held = list(&self.connection, profile)?;
        let mut now_held = held.clone();
        let mut counts = PutCounts::default();
        for detail in details {
            match now_held.iter_mut().find(|held| held.is_same(detail)) {
                Some(same) if same == detail => counts.unchanged += 1,
                Some(same) => {
                    self.writing.delete(&self.connection, profile, same)?;
                    self.writing.insert(&self.connection, profile, detail, self.id)?;
                    *same = detail.clone();
                    counts.changed += 1;
                }
                None => {
                    self.writing.insert(&self.connection, profile, detail, self.id)?;
                    now_held.push(detail.clone());
                    counts.new += 1;
                }
            }
        }
        if held.is_empty() && counts.new > 0 {
            counts.profiles_new = 1;
            self.writing.profiles += 1;
        } else if counts.new + counts.changed > 0 {
            counts.profiles_changed = 1;
        }
        Ok(counts)
    }

    fn take_back_all(
        &mut self,
        is_out: impl Fn(&Profile, Kind, &ContactValue) -> bool,
    ) -> rusqlite::Result<u64> {
        // A scan of everything, but one that only an opt-out during an import costs.
        let mut of_import =
            self.connection.prepare("SELECT DISTINCT profile FROM details WHERE import = ?1")?;
        let profiles: Vec<String> =
            of_import.query_map([self.id], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
        let mut taken = 0;
        for key in &profiles {
            let profile = Profile::from_key(key);
            let held = list(&self.connection, &profile)?;
            let mut left = held.len();
            for detail in held.iter().filter(|detail| is_out(&profile, detail.kind, &detail.value)) {
                if self.writing.delete_of_import(&self.connection, &profile, detail, self.id)? {
                    taken += 1;
                    left -= 1;
                }
            }
            if left == 0 && !held.is_empty() {
                self.writing.profiles -= 1;
            }
        }
        Ok(taken)
    }

    fn finish(&mut self, summary: &ImportSummary) -> rusqlite::Result<()> {
        self.writing.finish(&self.connection)?;
        let counts = summary.counts;
        self.connection.execute(
            "INSERT INTO imports (id, imported_at, source, rows, rejected, suppressed,
                 profiles_new, profiles_changed, new, changed, unchanged)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
            params![
                self.id,
                self.at.millis(),
                summary.source,
                summary.rows,
                summary.rejected,
                summary.suppressed,
                counts.profiles_new,
                counts.profiles_changed,
                counts.new,
                counts.changed,
                counts.unchanged
            ],
        )?;
        self.connection.execute_batch("COMMIT")
    }
}

impl Import for SqliteImport {
    fn put(&mut self, profile: &Profile, details: &[Detail]) -> Result<PutCounts, StoreError> {
        self.put_all(profile, details).map_err(connection::error)
    }

    fn take_back(
        &mut self,
        is_out: impl Fn(&Profile, Kind, &ContactValue) -> bool,
    ) -> Result<u64, StoreError> {
        self.take_back_all(is_out).map_err(connection::error)
    }

    fn commit(mut self, summary: &ImportSummary) -> Result<(), StoreError> {
        self.finish(summary).map_err(connection::error)?;
        // The import is done; whether its log could be emptied at once is another matter.
        let _ = connection::truncate_wal(&self.connection);
        Ok(())
    }
}

/// Writes to the details and what they add up to.
#[derive(Default)]
pub(crate) struct Writing {
    sources: HashMap<String, i64>,
    totals: HashMap<(i64, i64, i64), i64>,
    /// Profiles gained, or lost if negative.
    pub(crate) profiles: i64,
}

impl Writing {
    pub(crate) fn insert(
        &mut self,
        connection: &Connection,
        profile: &Profile,
        detail: &Detail,
        import: i64,
    ) -> rusqlite::Result<()> {
        let source = self.source(connection, &detail.source)?;
        connection
            .prepare_cached("INSERT INTO details VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)")?
            .execute(params![
                profile.key(),
                kind_number(detail.kind),
                label_number(detail.label),
                detail.confidence,
                observed(detail),
                detail.value.expose(),
                source,
                detail.expires_at.map(Timestamp::seconds),
                detail.basis,
                import
            ])?;
        self.count(source, detail, 1);
        Ok(())
    }

    pub(crate) fn delete(
        &mut self,
        connection: &Connection,
        profile: &Profile,
        detail: &Detail,
    ) -> rusqlite::Result<()> {
        let source = self.source(connection, &detail.source)?;
        connection
            .prepare_cached(
                "DELETE FROM details WHERE profile = ?1 AND kind = ?2 AND label = ?3 AND confidence = ?4
                 AND observed_at = ?5 AND value = ?6 AND source = ?7",
            )?
            .execute(params![
                profile.key(),
                kind_number(detail.kind),
                label_number(detail.label),
                detail.confidence,
                observed(detail),
                detail.value.expose(),
                source
            ])?;
        self.count(source, detail, -1);
        Ok(())
    }

    /// Deletes a detail if it is this import's. Whether it was.
    fn delete_of_import(
        &mut self,
        connection: &Connection,
        profile: &Profile,
        detail: &Detail,
        import: i64,
    ) -> rusqlite::Result<bool> {
        let source = self.source(connection, &detail.source)?;
        let is_of_import = connection
            .prepare_cached(
                "SELECT import = ?5 FROM details WHERE profile = ?1 AND kind = ?2 AND value = ?3 AND source = ?4",
            )?
            .query_row(
                params![profile.key(), kind_number(detail.kind), detail.value.expose(), source, import],
                |row| row.get(0),
            )?;
        if is_of_import {
            self.delete(connection, profile, detail)?;
        }
        Ok(is_of_import)
    }

    fn count(&mut self, source: i64, detail: &Detail, by: i64) {
        let sort = (source, kind_number(detail.kind), label_number(detail.label));
        *self.totals.entry(sort).or_default() += by;
    }

    /// The number of a source, which is given one when it is first met.
    fn source(&mut self, connection: &Connection, name: &str) -> rusqlite::Result<i64> {
        if let Some(&id) = self.sources.get(name) {
            return Ok(id);
        }
        let known = connection
            .prepare_cached("SELECT id FROM sources WHERE name = ?1")?
            .query_row([name], |row| row.get(0))
            .optional()?;
        let id = match known {
            Some(id) => id,
            None => {
                connection.execute("INSERT INTO sources (name) VALUES (?1)", [name])?;
                connection.last_insert_rowid()
            }
        };
        self.sources.insert(name.to_owned(), id);
        Ok(id)
    }

    /// Brings the totals up to date, in the same transaction.
    pub(crate) fn finish(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let mut add = connection.prepare_cached(
            "INSERT INTO totals VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT DO UPDATE SET count = count + excluded.count",
        )?;
        for ((source, kind, label), by) in self.totals.drain().filter(|(_, by)| *by != 0) {
            add.execute((source, kind, label, by))?;
        }
        connection
            .execute("UPDATE profile_total SET count = count + ?1", [std::mem::take(&mut self.profiles)])?;
        Ok(())
    }
}

fn observed(detail: &Detail) -> i64 {
    detail.observed_at.map_or(NEVER_OBSERVED, Timestamp::seconds)
}
