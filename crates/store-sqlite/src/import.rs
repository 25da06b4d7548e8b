//! Imports: one transaction, so that a crash at any moment leaves the old data or the new data, never a mix.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

use contactd_core::store::{
    Import, ImportPlan, ImportSummary, Imports, PastImport, PutCounts, StoreError, StoreFuture,
    ValueOfProfile,
};
use contactd_core::{Detail, Kind, Profile, Record, Timestamp};
use rusqlite::{Connection, params};

use crate::ahead::Ahead;
use crate::place::first_id;
use crate::profile_rows::{SourceNames, StoredDetail};
use crate::writing::Writing;
use crate::{SqliteStore, connection, totals};

impl Imports for SqliteStore {
    type Import<'a> = SqliteImport;

    fn sort_key(&self, profile: &Profile) -> u64 {
        first_id(profile, Kind::Phone).cast_unsigned()
    }

    fn begin_import(&self, plan: &ImportPlan) -> impl StoreFuture<SqliteImport> {
        std::future::ready(SqliteImport::begin(&self.details_file(), plan))
    }

    fn list_imports(&self) -> impl StoreFuture<Vec<PastImport>> {
        let listed = connection::reader(&self.details_file())
            .and_then(|reader| totals::imports(&reader, "ORDER BY id").map_err(connection::error));
        std::future::ready(listed)
    }

    fn undo_import(&self, id: i64, at: Timestamp) -> impl StoreFuture<Option<u64>> {
        let mark = "UPDATE imports SET undone_at = ?2 WHERE id = ?1 AND undone_at IS NULL";
        let undone = self.change_details(|transaction, writing| {
            let is_marked = transaction.execute(mark, (id, at.millis()))? > 0;
            is_marked.then(|| writing.withdraw_import(transaction, id)).transpose()
        });
        std::future::ready(undone)
    }
}

/// An import in progress, on a connection of its own. Dropping it rolls it back.
pub struct SqliteImport {
    connection: Connection,
    id: i64,
    at: Timestamp,
    writing: Writing,
    ahead: Ahead,
    /// Sources whose details are removed unless they are put.
    replaced: Vec<String>,
    counts: PutCounts,
    /// Sources that have a largest age: it is kept when their undated details were last given.
    aged: HashSet<i64>,
    /// Profiles that were held before and have been counted as changed, by hash.
    changed: HashSet<u64>,
}

impl SqliteImport {
    fn begin(file: &Path, plan: &ImportPlan) -> Result<Self, StoreError> {
        let connection = connection::impatient_writer(file)?;
        connection.execute_batch("PRAGMA cache_size = -65536; BEGIN IMMEDIATE").map_err(connection::error)?;
        Self::prepare(connection, plan).map_err(connection::error)
    }

    fn prepare(connection: Connection, plan: &ImportPlan) -> rusqlite::Result<Self> {
        let id =
            connection.query_row("SELECT coalesce(max(id), 0) + 1 FROM imports", (), |row| row.get(0))?;
        let held = connection.query_row("SELECT count FROM profile_total", (), |row| row.get(0))?;
        let aged = connection
            .prepare("SELECT id FROM sources WHERE max_age IS NOT NULL")
            .and_then(|mut aged| aged.query_map((), |row| row.get(0))?.collect())?;
        let mut import = Self {
            connection,
            id,
            at: plan.at,
            writing: Writing::default(),
            ahead: Ahead::in_order(plan.records, held, !plan.replaced.is_empty()),
            replaced: plan.replaced.clone(),
            counts: PutCounts::default(),
            aged,
            changed: HashSet::new(),
        };
        if let Some((sources, max_age)) = &plan.max_age {
            let seconds = i64::try_from(max_age.as_secs()).unwrap_or(i64::MAX);
            for source in sources {
                let id = import.writing.source(&import.connection, source)?;
                import.aged.insert(id);
                import.connection.execute("UPDATE sources SET max_age = ?2 WHERE id = ?1", (id, seconds))?;
            }
        }
        Ok(import)
    }

    fn put_record(&mut self, profile: &Profile, details: &[Detail]) -> rusqlite::Result<()> {
        self.withdraw_before(first_id(profile, Kind::Phone))?;
        let mut rows = self.ahead.rows_of(&self.connection, profile)?;
        let was_held = !rows.details.is_empty();
        let was_held_before = rows.details.iter().any(|stored| stored.import != self.id);
        let (mut new, mut changed) = (0, 0);
        let mut written = Vec::new();
        for (at, detail) in details.iter().enumerate() {
            // Of a detail given twice, the last counts.
            if details[at + 1..].iter().any(|later| later.is_same(detail)) {
                self.counts.unchanged += 1;
                continue;
            }
            match rows.details.iter_mut().find(|stored| stored.detail.is_same(detail)) {
                Some(same) if same.detail == *detail => {
                    self.counts.unchanged += 1;
                    if detail.observed_at.is_some() || !self.aged.contains(&same.source) {
                        continue;
                    }
                    same.said_by = Some(self.id);
                }
                Some(same) => {
                    same.said_by = Some(self.id);
                    self.writing.count(same.source, &same.detail, -1);
                    self.writing.count(same.source, detail, 1);
                    same.detail = detail.clone();
                    changed += 1;
                }
                None => {
                    let source = self.writing.source(&self.connection, &detail.source)?;
                    self.writing.count(source, detail, 1);
                    rows.details.push(StoredDetail {
                        detail: detail.clone(),
                        source,
                        import: self.id,
                        said_by: None,
                    });
                    new += 1;
                }
            }
            written.push(detail.kind);
        }
        let is_gone = |stored: &StoredDetail| {
            self.replaced.contains(&stored.detail.source)
                && !details.iter().any(|detail| detail.is_same(&stored.detail))
                && stored.import != self.id
        };
        let gone: Vec<_> = rows.details.extract_if(.., |stored| is_gone(stored)).collect();
        for gone in &gone {
            self.writing.count(gone.source, &gone.detail, -1);
            written.push(gone.detail.kind);
        }
        rows.write(&self.connection, profile, |kind| written.contains(&kind))?;
        self.counts.new += new;
        self.counts.changed += changed;
        self.counts.withdrawn += gone.len() as u64;
        if !was_held && new > 0 {
            self.counts.profiles_new += 1;
            self.writing.profiles += 1;
        } else if was_held_before
            && (!gone.is_empty() || new + changed > 0)
            && self.changed.insert(hash(profile))
        {
            self.counts.profiles_changed += 1;
        }
        Ok(())
    }

    /// Withdraws the details of replaced sources from the profiles before that place, which the import
    /// does not know.
    fn withdraw_before(&mut self, end: i64) -> rusqlite::Result<()> {
        if self.replaced.is_empty() {
            return Ok(());
        }
        loop {
            let mut profiles = Vec::new();
            let more = self.ahead.pass(&self.connection, end, |row| {
                if self.replaced.iter().any(|source| source == row.source()) {
                    profiles.push(row.profile);
                }
            })?;
            profiles.dedup();
            self.withdraw_from(&profiles)?;
            if !more {
                return Ok(());
            }
        }
    }

    fn withdraw_from(&mut self, profiles: &[String]) -> rusqlite::Result<()> {
        let mut names = SourceNames::default();
        for key in profiles {
            let profile = Profile::from_key(key);
            let is_gone = |stored: &StoredDetail| self.replaced.contains(&stored.detail.source);
            let taken = self.writing.take_away(&self.connection, &mut names, &profile, is_gone)?;
            self.counts.withdrawn += taken.details;
            self.counts.profiles_changed += u64::from(taken.details > 0 && !taken.was_last);
        }
        Ok(())
    }

    /// A detail keeps the number of the import that added it: these are the new ones.
    fn take_back_all(&mut self, values: &[ValueOfProfile]) -> rusqlite::Result<()> {
        let mut names = SourceNames::default();
        for (profile, kind, value) in values {
            let is_gone = |stored: &StoredDetail| {
                stored.import == self.id && stored.detail.kind == *kind && stored.detail.value == *value
            };
            let gone = self.writing.take_away(&self.connection, &mut names, profile, is_gone)?;
            self.counts.new -= gone.details;
            self.counts.taken_back += gone.details;
            self.counts.profiles_new -= u64::from(gone.was_last);
        }
        Ok(())
    }

    fn write_summary(&mut self, summary: &ImportSummary) -> rusqlite::Result<()> {
        self.writing.finish(&self.connection)?;
        let counts = summary.counts;
        self.connection.execute(
            "INSERT INTO imports (id, imported_at, source, rows, rejected, suppressed,
                 profiles_new, profiles_changed, new, changed, unchanged, withdrawn, actor)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
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
                counts.unchanged,
                counts.withdrawn,
                summary.actor
            ],
        )?;
        self.connection.execute_batch("COMMIT")
    }
}

impl Import for SqliteImport {
    fn put(&mut self, batch: Vec<Record>) -> impl StoreFuture<()> {
        let put = batch.iter().try_for_each(|record| self.put_record(&record.profile, &record.details));
        std::future::ready(put.map_err(connection::error))
    }

    fn finish(&mut self) -> impl StoreFuture<()> {
        std::future::ready(self.withdraw_before(i64::MAX).map_err(connection::error))
    }

    fn take_back(&mut self, values: &[ValueOfProfile]) -> impl StoreFuture<()> {
        std::future::ready(self.take_back_all(values).map_err(connection::error))
    }

    fn counts(&self) -> PutCounts {
        self.counts
    }

    async fn commit(mut self, summary: &ImportSummary) -> Result<i64, StoreError> {
        self.write_summary(summary).map_err(connection::error)?;
        // The import is done; whether its log could be emptied at once is another matter.
        let _ = connection::truncate_wal(&self.connection);
        Ok(self.id)
    }
}

fn hash(profile: &Profile) -> u64 {
    let mut hasher = DefaultHasher::new();
    profile.hash(&mut hasher);
    hasher.finish()
}
