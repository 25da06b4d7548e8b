//! Imports: one transaction, so that a kill at any moment leaves before or after.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

use contactd_core::store::{Import, ImportSummary, PutCounts, StoreError};
use contactd_core::{ContactValue, Detail, Kind, Profile, Timestamp};
use rusqlite::{Connection, params};

use crate::connection;
use crate::details::{kind, list};
use crate::writing::Writing;

/// An import under way, on a connection of its own. Dropping it rolls it back.
pub struct SqliteImport {
    connection: Connection,
    id: i64,
    at: Timestamp,
    writing: Writing,
    /// Profiles that were held before and have been counted as changed, by hash.
    changed: HashSet<u64>,
}

impl SqliteImport {
    pub(crate) fn begin(file: &Path, at: Timestamp) -> Result<Self, StoreError> {
        let connection = connection::writer(file)?;
        connection.execute_batch("PRAGMA cache_size = -65536; BEGIN IMMEDIATE").map_err(connection::error)?;
        let id = connection
            .query_row("SELECT coalesce(max(id), 0) + 1 FROM imports", (), |row| row.get(0))
            .map_err(connection::error)?;
        Ok(Self { connection, id, at, writing: Writing::default(), changed: HashSet::new() })
    }

    fn put_all(&mut self, profile: &Profile, details: &[Detail]) -> rusqlite::Result<PutCounts> {
        let mut held = list(&self.connection, profile)?;
        let was_held = !held.is_empty();
        let was_held_before = held.iter().any(|(_, import)| *import != self.id);
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
        } else if was_held_before && counts.new + counts.changed > 0 && self.changed.insert(hash(profile)) {
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

fn hash(profile: &Profile) -> u64 {
    let mut hasher = DefaultHasher::new();
    profile.hash(&mut hasher);
    hasher.finish()
}
