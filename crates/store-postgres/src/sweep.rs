//! Removing details that have expired or are too old.

use std::collections::HashSet;

use contactd_core::AdminEntry;
use contactd_core::store::merge::{HeldDetail, TotalChanges};
use contactd_core::store::place::NEVER_OBSERVED;
use contactd_core::store::{Aged, Noted, StoreError, Stored, SweepPlan, Swept};

use crate::connecting::Values;
use crate::database::{Counter, Database, Doing};
use crate::places::{places_of, take_away, write_totals};
use crate::rows::Sources;
use crate::{PostgresStore, outbox};

/// Details removed per step, so that other writers wait only briefly.
const CHUNK: usize = 500;

/// Details found at a time: a search may read much of the table.
const FOUND: i64 = 50_000;

/// The lock of a sweep: every node sweeps, and one at a time is enough. The number means nothing else.
const SWEEPING: i64 = 0x636f_6e74_6163_7401;

/// The pause before a sweep that has begun tries again to get the lock.
const PORTION_PAUSE: std::time::Duration = std::time::Duration::from_millis(250);

impl PostgresStore {
    /// Sweeps, unless another process does: then nothing is done here.
    pub(crate) async fn sweep_all(&self, plan: SweepPlan<'_>, entry: Noted<'_>) -> Stored<Swept> {
        let Some(locked) = self.database.try_lock(SWEEPING).await? else { return Ok(Swept::default()) };
        let swept = self.sweep_alone(plan, entry).await;
        locked.release().await;
        swept
    }

    async fn sweep_alone(&self, plan: SweepPlan<'_>, entry: Noted<'_>) -> Stored<Swept> {
        let now = plan.now.seconds();
        let mut sweep = Sweep { database: &self.database, has_begun: false, entry };
        let mut swept = Swept { expired: sweep.expired(now).await?, ..Swept::default() };
        swept.former += sweep.forget("expires_at IS NOT NULL AND expires_at <= $1", &[&now]).await?;
        swept.former += sweep.forget_imports_before(plan.former_before.millis()).await?;
        for (source, max_age) in sweep.ages(plan.aged).await? {
            let before = now.saturating_sub(max_age);
            swept.aged += sweep.aged(source, before).await?;
            let condition = "source = $1 AND observed_at < $2
                 AND (observed_at <> $3
                      OR coalesce(said_by, added_by) IN (SELECT id FROM imports WHERE imported_at < $2 * 1000))";
            swept.former += sweep.forget(condition, &[&source, &before, &NEVER_OBSERVED]).await?;
        }
        Ok(swept)
    }
}

struct Sweep<'a> {
    database: &'a Database,
    /// `Busy` means that nothing has changed: once something has, this sweep waits until it is complete.
    has_begun: bool,
    /// For the journal, once for every transaction.
    entry: Noted<'a>,
}

impl Sweep<'_> {
    async fn expired(&mut self, now: i64) -> Stored<u64> {
        let is_over = |held: &HeldDetail| held.detail.expires_at.is_some_and(|at| at.seconds() <= now);
        let condition = "expires_at IS NOT NULL AND expires_at <= $1";
        let mut all = 0;
        loop {
            let taken = self.take_away_where(condition, &[&now], is_over).await?;
            all += taken;
            // Other writers may have moved some meanwhile.
            if taken == 0 {
                return Ok(all);
            }
        }
    }

    /// Removes the details of a source from before this time. Reads the whole table once.
    async fn aged(&mut self, source: i32, before: i64) -> Stored<u64> {
        let imports = "SELECT id FROM imports WHERE imported_at < $1 * 1000::bigint";
        let imports: HashSet<i64> = self.find(imports, &[&before]).await?.into_iter().collect();
        let is_over = |held: &HeldDetail| held.is_from_before(source.into(), before, &imports);
        let condition = "source = $1 AND observed_at < $2
            AND (observed_at <> $3
                 OR coalesce(said_by, import) IN (SELECT id FROM imports WHERE imported_at < $2 * 1000))";
        self.take_away_where(condition, &[&source, &before, &NEVER_OBSERVED], is_over).await
    }

    /// Removes the details that this condition selects and that are over; returns how many.
    async fn take_away_where(
        &mut self,
        condition: &str,
        parameters: Values<'_>,
        is_over: impl Fn(&HeldDetail) -> bool + Copy + Send + Sync,
    ) -> Stored<u64> {
        let (mut all, mut after) = (0, -1_i64);
        loop {
            let found = self.find_after("details", condition, parameters, after).await?;
            let Some(&last) = found.last() else { return Ok(all) };
            for ids in found.chunks(CHUNK) {
                all += self.take_away_from(&places_of(ids.iter().copied()), is_over).await?;
            }
            after = last;
        }
    }

    /// The next ids of a table that a condition selects.
    async fn find_after(
        &self,
        table: &str,
        condition: &str,
        parameters: Values<'_>,
        after: i64,
    ) -> Stored<Vec<i64>> {
        let place = parameters.len() + 1;
        let find =
            format!("SELECT id FROM {table} WHERE {condition} AND id > ${place} ORDER BY id LIMIT {FOUND}");
        let mut parameters = parameters.to_vec();
        parameters.push(&after);
        self.find(&find, &parameters).await
    }

    /// The first column of what a query finds.
    async fn find(&self, find: &str, parameters: Values<'_>) -> Stored<Vec<i64>> {
        Ok(self.database.query(find, parameters).await?.iter().map(|row| row.get(0)).collect())
    }

    async fn take_away_from(
        &mut self,
        places: &[i64],
        is_over: impl Fn(&HeldDetail) -> bool + Copy + Send + Sync,
    ) -> Stored<u64> {
        if places.is_empty() {
            return Ok(0);
        }
        let entry = self.entry.map(AdminEntry::again);
        let entry = entry.as_ref();
        self.change(move |work| async move {
            let mut totals = TotalChanges::default();
            let sources = Sources::read(&work).await?;
            let taken = take_away(&work, &sources, &mut totals, places, move |_, held| is_over(held))
                .await?
                .len() as u64;
            write_totals(&work, totals).await?;
            outbox::add(&work, entry.filter(|_| taken > 0), &[("details", taken)]).await?;
            Ok(taken)
        })
        .await
    }

    /// Removes what imports have kept and what this condition selects; returns how many details.
    async fn forget(&mut self, condition: &str, parameters: Values<'_>) -> Stored<u64> {
        let (mut all, mut after) = (0, -1_i64);
        loop {
            let found = self.find_after("former", condition, parameters, after).await?;
            let Some(&last) = found.last() else { return Ok(all) };
            for ids in found.chunks(CHUNK) {
                all += self.forget_some(ids).await?;
            }
            after = last;
        }
    }

    async fn forget_some(&mut self, ids: &[i64]) -> Stored<u64> {
        let entry = self.entry.map(AdminEntry::again);
        let entry = entry.as_ref();
        self.change(move |work| async move {
            let removed = work.execute("DELETE FROM former WHERE id = ANY($1)", &[&ids]).await?;
            outbox::add(&work, entry.filter(|_| removed > 0), &[("keptForUndo", removed)]).await?;
            Ok(removed)
        })
        .await
    }

    async fn forget_imports_before(&mut self, before: i64) -> Stored<u64> {
        let find = "SELECT id FROM imports WHERE is_kept AND imported_at < $1 LIMIT 1";
        if !self.find(find, &[&before]).await?.is_empty() {
            // Before anything is removed: what is only partly kept cannot be undone.
            self.change(move |work| async move {
                let set = "UPDATE imports SET is_kept = FALSE WHERE is_kept AND imported_at < $1";
                Ok(work.execute(set, &[&before]).await?)
            })
            .await?;
        }
        self.forget("import IN (SELECT id FROM imports WHERE imported_at < $1)", &[&before]).await
    }

    /// The sources whose details can get too old, by id, and their maximum age in seconds.
    async fn ages(&self, aged: Aged<'_>) -> Stored<Vec<(i32, i64)>> {
        let (source, age) = match aged {
            Aged::Not => return Ok(Vec::new()),
            Aged::Policies => (None, None),
            Aged::Source(source, age) => {
                (Some(source), Some(i64::try_from(age.as_secs()).unwrap_or(i64::MAX)))
            }
        };
        let find = "SELECT id, coalesce($2, max_age) FROM sources
                    WHERE ($1::text IS NULL AND max_age IS NOT NULL) OR name = $1";
        let rows = self.database.query(find, &[&source, &age]).await?;
        Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
    }

    /// Removes something; returns how much. What removes nothing is no change.
    async fn change(&mut self, mut work: impl Doing<u64>) -> Stored<u64> {
        loop {
            match self.database.change_if(Counter::Details, |removed| *removed > 0, &mut work).await {
                Err(StoreError::Busy) if self.has_begun => self.database.sleep(PORTION_PAUSE).await,
                changed => {
                    self.has_begun |= changed.is_ok();
                    return changed;
                }
            }
        }
    }
}
