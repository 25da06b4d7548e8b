//! Imports: one transaction, so that a kill at any moment leaves before or after.

use std::collections::HashMap;
use std::path::Path;

use contactd_core::store::{Import, ImportSummary, PutCounts, StoreError};
use contactd_core::{ContactValue, Detail, Kind, Profile, Timestamp};
use rusqlite::{Connection, OptionalExtension, params};

use crate::connection;
use crate::details::{kind, kind_number, label_number, list};

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
        let mut held = list(&self.connection, profile)?;
        let was_held = !held.is_empty();
        let mut counts = PutCounts::default();
        for detail in details {
            match held.iter_mut().find(|(held, _)| held.is_same(detail)) {
                Some((same, _)) if same == detail => counts.unchanged += 1,
                Some((same, import)) => {
                    self.writing.delete(&self.connection, profile, same)?;
                    self.writing.insert(&self.connection, profile, detail, *import)?;
                    *same = detail.clone();
                    counts.changed += 1;
                }
                None => {
                    self.writing.insert(&self.connection, profile, detail, self.id)?;
                    held.push((detail.clone(), self.id));
                    counts.new += 1;
                }
            }
        }
        if !was_held && counts.new > 0 {
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
    ) -> rusqlite::Result<PutCounts> {
        // A scan of everything, but one that only an opt-out during an import costs. A detail
        // keeps the number of the import that brought it in: these are the new ones.
        let mut picked = Vec::new();
        let mut of_import =
            self.connection.prepare("SELECT profile, kind, value FROM details WHERE import = ?1")?;
        let mut rows = of_import.query([self.id])?;
        while let Some(row) = rows.next()? {
            let profile = Profile::from_key(row.get_ref(0)?.as_str()?);
            let (kind, value) = (kind(row.get(1)?), ContactValue::from_store(row.get(2)?));
            if is_out(&profile, kind, &value) {
                picked.push((profile, kind, value));
            }
        }
        drop(rows);
        drop(of_import);
        let mut taken = PutCounts::default();
        for (profile, kind, value) in &picked {
            let held = list(&self.connection, profile)?;
            for (detail, import) in
                held.iter().filter(|(detail, _)| detail.kind == *kind && detail.value == *value)
            {
                if *import == self.id {
                    self.writing.delete(&self.connection, profile, detail)?;
                    taken.new += 1;
                }
            }
            if !held.is_empty() && list(&self.connection, profile)?.is_empty() {
                taken.profiles_new += 1;
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
    ) -> Result<PutCounts, StoreError> {
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
