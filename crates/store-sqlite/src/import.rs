//! Imports: one transaction, so that a kill at any moment leaves before or after.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::time::Duration;

use contactd_core::store::{Import, ImportSummary, PutCounts, StoreError};
use contactd_core::{ContactValue, Detail, Kind, Profile, Timestamp};
use rusqlite::{Connection, params};

use crate::ahead::Ahead;
use crate::connection;
use crate::details::kind;
use crate::held::{HeldDetail, Names};
use crate::place::first_id;
use crate::writing::Writing;

/// How long an import waits for another to end before it says that the store is busy.
const BEGIN_PATIENCE: Duration = Duration::from_millis(500);

/// An import under way, on a connection of its own. Dropping it rolls it back.
pub struct SqliteImport {
    connection: Connection,
    id: i64,
    at: Timestamp,
    writing: Writing,
    ahead: Ahead,
    /// Sources whose details go unless they are put.
    replaced: Vec<String>,
    withdrawn: PutCounts,
    /// Sources that have a largest age: when their undated details were last said is kept.
    aged: HashSet<i64>,
    /// Profiles that were held before and have been counted as changed, by hash.
    changed: HashSet<u64>,
}

impl SqliteImport {
    pub(crate) fn begin(file: &Path, at: Timestamp) -> Result<Self, StoreError> {
        let connection = connection::writer(file)?;
        connection.busy_timeout(BEGIN_PATIENCE).map_err(connection::error)?;
        connection.execute_batch("PRAGMA cache_size = -65536; BEGIN IMMEDIATE").map_err(connection::error)?;
        let id = connection
            .query_row("SELECT coalesce(max(id), 0) + 1 FROM imports", (), |row| row.get(0))
            .map_err(connection::error)?;
        let aged = connection
            .prepare("SELECT id FROM sources WHERE max_age IS NOT NULL")
            .and_then(|mut aged| aged.query_map((), |row| row.get(0))?.collect())
            .map_err(connection::error)?;
        Ok(Self {
            connection,
            id,
            at,
            writing: Writing::default(),
            ahead: Ahead::lookups(),
            replaced: Vec::new(),
            withdrawn: PutCounts::default(),
            aged,
            changed: HashSet::new(),
        })
    }

    fn put_all(&mut self, profile: &Profile, details: &[Detail]) -> rusqlite::Result<PutCounts> {
        self.withdraw_before(first_id(profile, Kind::Phone))?;
        let mut held = self.ahead.held(&self.connection, profile)?;
        let was_held = !held.details.is_empty();
        let was_held_before = held.details.iter().any(|held| held.import != self.id);
        let mut counts = PutCounts::default();
        let mut written = Vec::new();
        for (at, detail) in details.iter().enumerate() {
            // Of what is said twice, the last counts.
            if details[at + 1..].iter().any(|later| later.is_same(detail)) {
                counts.unchanged += 1;
                continue;
            }
            match held.details.iter_mut().find(|held| held.detail.is_same(detail)) {
                Some(same) if same.detail == *detail => {
                    counts.unchanged += 1;
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
                    counts.changed += 1;
                }
                None => {
                    let source = self.writing.source(&self.connection, &detail.source)?;
                    self.writing.count(source, detail, 1);
                    held.details.push(HeldDetail {
                        detail: detail.clone(),
                        source,
                        import: self.id,
                        said_by: None,
                    });
                    counts.new += 1;
                }
            }
            written.push(detail.kind);
        }
        let is_gone = |held: &HeldDetail| {
            self.replaced.contains(&held.detail.source)
                && !details.iter().any(|detail| detail.is_same(&held.detail))
                && held.import != self.id
        };
        let mut is_less = false;
        for gone in held.details.extract_if(.., |held| is_gone(held)) {
            is_less = true;
            self.writing.count(gone.source, &gone.detail, -1);
            self.withdrawn.withdrawn += 1;
            written.push(gone.detail.kind);
        }
        held.write(&self.connection, profile, |kind| written.contains(&kind))?;
        if !was_held && counts.new > 0 {
            counts.profiles_new = 1;
            self.writing.profiles += 1;
        } else if was_held_before
            && (is_less || counts.new + counts.changed > 0)
            && self.changed.insert(hash(profile))
        {
            counts.profiles_changed = 1;
        }
        Ok(counts)
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
        let mut names = Names::default();
        for key in profiles {
            let profile = Profile::from_key(key);
            let is_gone = |held: &HeldDetail| self.replaced.contains(&held.detail.source);
            let taken = self.writing.take_away(&self.connection, &mut names, &profile, is_gone)?;
            self.withdrawn.withdrawn += taken.details;
            self.withdrawn.profiles_changed += u64::from(taken.details > 0 && !taken.was_last);
        }
        Ok(())
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
        let mut names = Names::default();
        for (profile, kind, value) in &picked {
            let is_gone = |held: &HeldDetail| {
                held.import == self.id && held.detail.kind == *kind && held.detail.value == *value
            };
            let gone = self.writing.take_away(&self.connection, &mut names, profile, is_gone)?;
            taken.new += gone.details;
            taken.profiles_new += u64::from(gone.was_last);
        }
        Ok(taken)
    }

    fn finish(&mut self, summary: &ImportSummary) -> rusqlite::Result<()> {
        self.writing.finish(&self.connection)?;
        let counts = summary.counts;
        self.connection.execute(
            "INSERT INTO imports (id, imported_at, source, rows, rejected, suppressed,
                 profiles_new, profiles_changed, new, changed, unchanged, withdrawn)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
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
                counts.withdrawn
            ],
        )?;
        self.connection.execute_batch("COMMIT")
    }
}

impl Import for SqliteImport {
    fn expect(&mut self, profiles: u64, replaced: &[String]) -> Result<(), StoreError> {
        let held = self.connection.query_row("SELECT count FROM profile_total", (), |row| row.get(0));
        let held: u64 = held.map_err(connection::error)?;
        self.ahead = Ahead::in_order(profiles, held, !replaced.is_empty());
        self.replaced = replaced.to_vec();
        Ok(())
    }

    fn withdraw(&mut self) -> Result<PutCounts, StoreError> {
        self.withdraw_before(i64::MAX).map_err(connection::error)?;
        Ok(self.withdrawn)
    }

    fn put(&mut self, profile: &Profile, details: &[Detail]) -> Result<PutCounts, StoreError> {
        self.put_all(profile, details).map_err(connection::error)
    }

    fn take_back(
        &mut self,
        is_out: impl Fn(&Profile, Kind, &ContactValue) -> bool,
    ) -> Result<PutCounts, StoreError> {
        self.take_back_all(is_out).map_err(connection::error)
    }

    fn set_max_age(&mut self, sources: &[String], max_age: Duration) -> Result<(), StoreError> {
        let seconds = i64::try_from(max_age.as_secs()).unwrap_or(i64::MAX);
        for source in sources {
            let done = self.writing.source(&self.connection, source).and_then(|id| {
                self.aged.insert(id);
                self.connection.execute("UPDATE sources SET max_age = ?2 WHERE id = ?1", (id, seconds))
            });
            done.map_err(connection::error)?;
        }
        Ok(())
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
