//! Removing details that have expired or are too old.

use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

use contactd_core::store::merge::HeldDetail;
use contactd_core::store::place::NEVER_OBSERVED;
use contactd_core::store::{Aged, LocalRead, Noted, SweepPlan, Swept};
use contactd_core::{AdminEntry, Profile};
use rusqlite::{Connection, Result};

use crate::writing::Writing;
use crate::{SqliteStore, connection, outbox};

/// Details found, and profiles swept, per step, so that other writers wait only briefly.
const CHUNK: i64 = 500;

/// Longer than any import.
const LONG: Duration = Duration::from_secs(86_400);

impl SqliteStore {
    pub(crate) fn sweep_all(&self, plan: SweepPlan<'_>, entry: Noted<'_>) -> Result<Swept> {
        let now = plan.now.seconds();
        let mut sweep = Sweep::open(&self.details_file(), entry)?;
        let mut swept = Swept { expired: sweep.expired(now)?, ..Swept::default() };
        swept.former += sweep.forget("expires_at IS NOT NULL AND expires_at <= ?1", [now])?;
        swept.former += sweep.forget_imports_before(plan.former_before.millis())?;
        for (source, max_age) in sweep.ages(plan.aged)? {
            let before = now.saturating_sub(max_age);
            swept.aged += sweep.aged(source, before)?;
            swept.former += sweep.forget(
                "source = ?1 AND observed_at < ?2
                 AND (observed_at <> ?3
                      OR coalesce(said_by, added_by) IN (SELECT id FROM imports WHERE imported_at < ?2 * 1000))",
                (source, before, NEVER_OBSERVED),
            )?;
        }
        if swept != Swept::default() {
            self.renew_all();
        }
        Ok(swept)
    }
}

/// A sweep has its own connections: while it waits for an import, it blocks no other use of the store.
struct Sweep {
    reader: Connection,
    writer: Connection,
    /// For the journal, once for every transaction.
    entry: Option<AdminEntry>,
}

impl Sweep {
    fn open(file: &Path, entry: Noted<'_>) -> Result<Self> {
        let (reader, writer) = (connection::reader(file)?, connection::impatient_writer(file)?);
        Ok(Self { reader, writer, entry: entry.cloned() })
    }

    fn expired(&mut self, now: i64) -> Result<u64> {
        let is_over = |stored: &HeldDetail| stored.detail.expires_at.is_some_and(|at| at.seconds() <= now);
        let mut all = 0;
        loop {
            let profiles = self.find_expired(now)?;
            let taken = self.take_away_from(&profiles, is_over)?;
            all += taken;
            if taken == 0 {
                return Ok(all);
            }
        }
    }

    fn find_expired(&self, now: i64) -> Result<Vec<String>> {
        let mut find = self.reader.prepare_cached(
            "SELECT DISTINCT profile FROM details WHERE expires_at IS NOT NULL AND expires_at <= ?1 LIMIT ?2",
        )?;
        find.query_map((now, CHUNK), |row| row.get(0))?.collect()
    }

    /// Removes the details of a source from before this time. Reads the whole table once.
    fn aged(&mut self, source: i64, before: i64) -> Result<u64> {
        let imports = self.imports_before(before)?;
        let is_over = |stored: &HeldDetail| stored.is_from_before(source, before, &imports);
        let (mut all, mut after) = (0, -1);
        loop {
            let found = self.find_aged(source, before, after)?;
            let Some(&(last, _)) = found.last() else { return Ok(all) };
            let mut profiles: Vec<String> = found.into_iter().map(|(_, profile)| profile).collect();
            profiles.dedup();
            all += self.take_away_from(&profiles, is_over)?;
            after = last;
        }
    }

    fn imports_before(&self, before: i64) -> Result<HashSet<i64>> {
        let mut imports = self.reader.prepare("SELECT id FROM imports WHERE imported_at < ?1 * 1000")?;
        imports.query_map([before], |row| row.get(0))?.collect()
    }

    /// Details after the id `after` that are too old: the id and the profile of each.
    fn find_aged(&self, source: i64, before: i64, after: i64) -> Result<Vec<(i64, String)>> {
        let mut find = self.reader.prepare_cached(
            "SELECT id, profile FROM details WHERE id > ?1 AND source = ?2 AND observed_at < ?3
                 AND (observed_at <> ?4
                      OR coalesce(said_by, import) IN (SELECT id FROM imports WHERE imported_at < ?3 * 1000))
             ORDER BY id LIMIT ?5",
        )?;
        let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
        find.query_map((after, source, before, NEVER_OBSERVED, CHUNK), row)?.collect()
    }

    fn take_away_from(&mut self, profiles: &[String], is_over: impl Fn(&HeldDetail) -> bool) -> Result<u64> {
        if profiles.is_empty() {
            return Ok(0);
        }
        let transaction = connection::write(&mut self.writer)?;
        let (mut writing, mut taken) = (Writing::default(), 0);
        for key in profiles {
            let profile = Profile::from_key(key);
            let gone = writing.take_away(&transaction, &profile, &is_over)?;
            taken += gone.gone.len() as u64;
        }
        writing.finish(&transaction)?;
        let entry = self.entry.as_ref().filter(|_| taken > 0).map(AdminEntry::again);
        outbox::add(&transaction, entry.as_ref(), &[("details", taken)])?;
        transaction.commit()?;
        // `Busy` means that nothing has changed: from now on this sweep waits until it is complete.
        self.writer.busy_timeout(LONG)?;
        Ok(taken)
    }

    /// Removes what imports have kept and what this condition selects; returns how many details.
    fn forget(&mut self, condition: &str, parameters: impl rusqlite::Params + Clone) -> Result<u64> {
        let find = format!("SELECT EXISTS (SELECT 1 FROM former WHERE {condition})");
        let delete =
            format!("DELETE FROM former WHERE id IN (SELECT id FROM former WHERE {condition} LIMIT {CHUNK})");
        let mut all = 0;
        loop {
            let has_some = self.reader.query_row(&find, parameters.clone(), |row| row.get(0));
            if !has_some? {
                return Ok(all);
            }
            let transaction = connection::write(&mut self.writer)?;
            let removed = transaction.execute(&delete, parameters.clone())? as u64;
            let entry = self.entry.as_ref().map(AdminEntry::again);
            outbox::add(&transaction, entry.as_ref(), &[("keptForUndo", removed)])?;
            transaction.commit()?;
            self.writer.busy_timeout(LONG)?;
            all += removed;
        }
    }

    fn forget_imports_before(&mut self, before: i64) -> Result<u64> {
        let find = "SELECT EXISTS (SELECT 1 FROM imports WHERE is_kept AND imported_at < ?1)";
        if self.reader.query_row(find, [before], |row| row.get(0))? {
            // Before anything is removed: what is only partly kept cannot be undone.
            self.writer
                .execute("UPDATE imports SET is_kept = FALSE WHERE is_kept AND imported_at < ?1", [before])?;
        }
        self.forget("import IN (SELECT id FROM imports WHERE imported_at < ?1)", [before])
    }

    /// The sources whose details can get too old, by id, and their maximum age in seconds.
    fn ages(&self, aged: Aged<'_>) -> Result<Vec<(i64, i64)>> {
        let (source, age) = match aged {
            Aged::Not => return Ok(Vec::new()),
            Aged::Policies => (None, None),
            Aged::Source(source, age) => {
                (Some(source), Some(i64::try_from(age.as_secs()).unwrap_or(i64::MAX)))
            }
        };
        let mut find = self.reader.prepare(
            "SELECT id, coalesce(?2, max_age) FROM sources
             WHERE (?1 IS NULL AND max_age IS NOT NULL) OR name = ?1",
        )?;
        find.query_map((source, age), |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
    }
}
