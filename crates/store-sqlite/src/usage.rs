//! Usage counts of tokens by UTC day.

use async_trait::async_trait;
use contactd_core::store::{DayHits, Stored, Usage};
use contactd_core::{Timestamp, UsageDelta};
use rusqlite::params;

use crate::SqliteStore;

#[async_trait]
impl Usage for SqliteStore {
    async fn record_usage(&self, usage: &[UsageDelta], at: Timestamp) -> Stored<()> {
        self.change_main(|transaction| {
            let mut add = transaction.prepare_cached(
                "INSERT INTO usage VALUES (?1, ?2, ?3, ?4, ?5)
                 ON CONFLICT DO UPDATE SET hits = hits + excluded.hits,
                     misses = misses + excluded.misses, refused = refused + excluded.refused",
            )?;
            let mut touch = transaction.prepare_cached(
                "UPDATE tokens SET last_used_at = max(coalesce(last_used_at, ?2), ?2) WHERE id = ?1",
            )?;
            for delta in usage {
                add.execute(params![delta.token, at.day(), delta.hits, delta.misses, delta.refused])?;
                if let Some(last_used_at) = delta.last_used_at {
                    touch.execute(params![delta.token, last_used_at.millis()])?;
                }
            }
            Ok(())
        })
    }

    async fn hits_since(&self, family: &str, day: i64) -> Stored<u64> {
        let sum = "SELECT coalesce(sum(hits), 0) FROM usage
                   WHERE token IN (SELECT id FROM tokens WHERE family = ?1) AND day >= ?2";
        self.with_main(|main| main.query_row(sum, params![family, day], |row| row.get(0)))
    }

    async fn hits_by_day(&self, since: i64) -> Stored<Vec<DayHits>> {
        self.with_main(|main| {
            let mut read = main.prepare_cached("SELECT token, day, hits FROM usage WHERE day >= ?1")?;
            let rows = read.query_map([since], |row| {
                Ok(DayHits { token: row.get(0)?, day: row.get(1)?, hits: row.get(2)? })
            })?;
            rows.collect()
        })
    }
}

impl SqliteStore {
    /// The counts of every token and day since the start of a UTC day, and when each token was last used.
    pub fn usage_since(&self, day: i64) -> Stored<Vec<(i64, UsageDelta)>> {
        self.with_main(|main| {
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
        })
    }
}
