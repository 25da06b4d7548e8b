//! Removing details whose time is over.

use std::time::Duration;

use contactd_core::store::{Aged, StoreError, Swept};
use contactd_core::{Profile, Timestamp};
use rusqlite::Connection;

use crate::held::{HeldDetail, NEVER_OBSERVED, Names, observed};
use crate::writing::Writing;
use crate::{SqliteStore, connection, lock};

/// Profiles that are swept in one transaction, so that others who write wait for a moment only.
const CHUNK: i64 = 500;

impl SqliteStore {
    pub(crate) fn sweep_all(&self, now: Timestamp, aged: Aged<'_>) -> Result<Swept, StoreError> {
        let expired = self.sweep_expired(now)?;
        let mut swept = Swept { expired, aged: 0 };
        for (source, max_age) in self.ages(aged)? {
            let before = now.seconds().saturating_sub(i64::try_from(max_age.as_secs()).unwrap_or(i64::MAX));
            swept.aged += self.sweep_aged(source, before)?;
        }
        if swept != Swept::default() {
            self.renew_readers();
        }
        Ok(swept)
    }

    fn sweep_expired(&self, now: Timestamp) -> Result<u64, StoreError> {
        let seconds = now.seconds();
        let find = |details: &Connection| -> rusqlite::Result<Vec<String>> {
            let mut find = details.prepare_cached(
                "SELECT DISTINCT profile FROM details WHERE expires_at IS NOT NULL AND expires_at <= ?1 LIMIT ?2",
            )?;
            find.query_map((seconds, CHUNK), |row| row.get(0))?.collect()
        };
        let is_over = |held: &HeldDetail| held.detail.expires_at.is_some_and(|at| at.seconds() <= seconds);
        let mut all = 0;
        loop {
            let profiles = find(&lock(&self.details)).map_err(connection::error)?;
            if profiles.is_empty() {
                return Ok(all);
            }
            all += self.take_away_from(&profiles, is_over)?;
        }
    }

    /// Removes what a source said before then. It is looked for on a connection of its own, because that reads everything.
    fn sweep_aged(&self, source: i64, before: i64) -> Result<u64, StoreError> {
        let reader = connection::reader(&self.details_file())?;
        let find = || -> rusqlite::Result<(Vec<String>, Vec<i64>)> {
            let mut imports = reader.prepare("SELECT id FROM imports WHERE imported_at < ?1 * 1000")?;
            let imports: Vec<i64> =
                imports.query_map([before], |row| row.get(0))?.collect::<Result<_, _>>()?;
            let mut find = reader.prepare(
                "SELECT DISTINCT profile FROM details WHERE source = ?1 AND observed_at < ?2
                     AND (observed_at <> ?3 OR import IN (SELECT id FROM imports WHERE imported_at < ?2 * 1000))",
            )?;
            let found = find.query_map((source, before, NEVER_OBSERVED), |row| row.get(0))?;
            Ok((found.collect::<Result<_, _>>()?, imports))
        };
        let (profiles, imports) = find().map_err(connection::error)?;
        let is_over = |held: &HeldDetail| {
            held.source == source
                && match observed(&held.detail) {
                    NEVER_OBSERVED => imports.contains(&held.import),
                    at => at < before,
                }
        };
        let mut all = 0;
        for profiles in profiles.chunks(usize::try_from(CHUNK).unwrap_or(1)) {
            all += self.take_away_from(profiles, is_over)?;
        }
        Ok(all)
    }

    fn take_away_from(
        &self,
        profiles: &[String],
        is_over: impl Fn(&HeldDetail) -> bool,
    ) -> Result<u64, StoreError> {
        let mut details = lock(&self.details);
        let transaction = connection::write(&mut details)?;
        let (mut writing, mut names, mut taken) = (Writing::default(), Names::default(), 0);
        for key in profiles {
            let profile = Profile::from_key(key);
            let gone =
                writing.take_away(&transaction, &mut names, &profile, &is_over).map_err(connection::error)?;
            taken += gone.details;
        }
        writing.finish(&transaction).map_err(connection::error)?;
        transaction.commit().map_err(connection::error)?;
        Ok(taken)
    }

    /// The sources whose details get too old, by number.
    fn ages(&self, aged: Aged<'_>) -> Result<Vec<(i64, Duration)>, StoreError> {
        let details = lock(&self.details);
        let read = || -> rusqlite::Result<Vec<(i64, Duration)>> {
            let (sql, source, age) = match aged {
                Aged::Not => return Ok(Vec::new()),
                Aged::Policies => ("SELECT id, max_age FROM sources WHERE max_age IS NOT NULL", "", 0),
                Aged::Source(source, age) => {
                    ("SELECT id, ?2 FROM sources WHERE name = ?1", source, age.as_secs())
                }
            };
            let mut statement = details.prepare(sql)?;
            let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, Duration::from_secs(row.get(1)?)));
            if source.is_empty() {
                statement.query_map((), row)?.collect()
            } else {
                statement.query_map((source, age), row)?.collect()
            }
        };
        read().map_err(connection::error)
    }
}
