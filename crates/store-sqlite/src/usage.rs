//! Usage counts of tokens by UTC day.

use contactd_core::store::{DayHits, StoreError, StoreFuture, Usage};
use contactd_core::{Timestamp, UsageDelta};
use rusqlite::params;

use crate::{SqliteStore, connection};

impl Usage for SqliteStore {
    fn record_usage(&self, usage: &[UsageDelta], at: Timestamp) -> impl StoreFuture<()> {
        std::future::ready(self.record(usage, at))
    }

    fn hits_since(&self, family: &str, day: i64) -> impl StoreFuture<u64> {
        let hits = self.main().query_row(
            "SELECT coalesce(sum(hits), 0) FROM usage
             WHERE token IN (SELECT id FROM tokens WHERE family = ?1) AND day >= ?2",
            params![family, day],
            |row| row.get(0),
        );
        std::future::ready(hits.map_err(connection::error))
    }

    fn hits_by_day(&self, since: i64) -> impl StoreFuture<Vec<DayHits>> {
        std::future::ready(self.read_hits(since).map_err(connection::error))
    }

    fn raise_hits(&self, hits: &[DayHits]) -> impl StoreFuture<()> {
        std::future::ready(self.raise(hits))
    }
}

impl SqliteStore {
    /// The counts of every token and day since the start of a UTC day, and when each token was last used.
    pub fn usage_since(&self, day: i64) -> Result<Vec<(i64, UsageDelta)>, StoreError> {
        let read = || -> rusqlite::Result<Vec<(i64, UsageDelta)>> {
            let main = self.main();
            let mut read = main.prepare_cached(
                "SELECT usage.day, usage.token, usage.hits, usage.misses, usage.refused, tokens.last_used_at
                 FROM usage LEFT JOIN tokens ON tokens.id = usage.token WHERE usage.day >= ?1",
            )?;
            let rows = read.query_map([day], |row| {
                let delta = UsageDelta {
                    token: row.get(1)?,
                    hits: row.get(2)?,
                    misses: row.get(3)?,
                    refused: row.get(4)?,
                    last_used_at: row.get::<_, Option<i64>>(5)?.map(Timestamp::from_millis),
                };
                Ok((row.get(0)?, delta))
            })?;
            rows.collect()
        };
        read().map_err(connection::error)
    }

    fn read_hits(&self, since: i64) -> rusqlite::Result<Vec<DayHits>> {
        let main = self.main();
        let mut read = main.prepare_cached("SELECT token, day, hits FROM usage WHERE day >= ?1")?;
        let rows = read.query_map([since], |row| {
            Ok(DayHits { token: row.get(0)?, day: row.get(1)?, hits: row.get(2)? })
        })?;
        rows.collect()
    }

    fn raise(&self, hits: &[DayHits]) -> Result<(), StoreError> {
        let mut main = self.main();
        let transaction = connection::write(&mut main)?;
        for DayHits { token, day, hits } in hits {
            transaction
                .prepare_cached(
                    "INSERT INTO usage VALUES (?1, ?2, ?3, 0, 0)
                     ON CONFLICT DO UPDATE SET hits = max(hits, excluded.hits)",
                )
                .and_then(|mut raise| raise.execute(params![token, day, hits]))
                .map_err(connection::error)?;
        }
        transaction.commit().map_err(connection::error)
    }

    fn record(&self, usage: &[UsageDelta], at: Timestamp) -> Result<(), StoreError> {
        let mut main = self.main();
        let transaction = connection::write(&mut main)?;
        for delta in usage {
            transaction
                .prepare_cached(
                    "INSERT INTO usage VALUES (?1, ?2, ?3, ?4, ?5)
                     ON CONFLICT DO UPDATE SET hits = hits + excluded.hits,
                         misses = misses + excluded.misses, refused = refused + excluded.refused",
                )
                .and_then(|mut add| {
                    add.execute(params![delta.token, at.day(), delta.hits, delta.misses, delta.refused])
                })
                .map_err(connection::error)?;
            if let Some(last_used_at) = delta.last_used_at {
                transaction
                    .prepare_cached(
                        "UPDATE tokens SET last_used_at = max(coalesce(last_used_at, ?2), ?2) WHERE id = ?1",
                    )
                    .and_then(|mut touch| touch.execute(params![delta.token, last_used_at.millis()]))
                    .map_err(connection::error)?;
            }
        }
        transaction.commit().map_err(connection::error)
    }
}
