//! Usage counts of tokens by UTC day.
//!
//! A node stores its own counts, as absolute numbers. What was not counted by a node belongs to the node without a name.

use async_trait::async_trait;
use contactd_core::store::{DayHits, Stored, Usage};
use contactd_core::{Timestamp, UsageDelta};
use tokio_postgres::Row;

use crate::PostgresStore;
use crate::database::{Counter, Work};
use crate::failure::Tried;

/// Counts of tokens and days, as arrays: $1 tokens, $2 days, $3 hits, $4 misses, $5 refused. One that is given twice is added
/// up.
const GIVEN: &str = "SELECT token, day, sum(hits)::bigint, sum(misses)::bigint, sum(refused)::bigint
    FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[])
        AS given (token, day, hits, misses, refused)
    GROUP BY token, day";

#[async_trait]
impl Usage for PostgresStore {
    async fn record_usage(&self, usage: &[UsageDelta], at: Timestamp) -> Stored<()> {
        // Adding is not the same when it is repeated, so it is made once, as a change is.
        let change = move |work: Work| async move {
            let columns = Columns::of(usage.iter().map(|delta| (at.day(), delta)));
            let add = format!(
                "INSERT INTO usage (token, day, hits, misses, refused) {GIVEN}
             ON CONFLICT (token, day, node) DO UPDATE SET hits = usage.hits + excluded.hits,
                 misses = usage.misses + excluded.misses, refused = usage.refused + excluded.refused"
            );
            let Columns { tokens, days, hits, misses, refused } = &columns;
            work.execute(&add, &[tokens, days, hits, misses, refused]).await?;
            touch(&work, usage).await
        };
        self.database.change(Counter::Usage, change).await
    }

    async fn hits_since(&self, family: &str, day: i64) -> Stored<u64> {
        let sum = "SELECT coalesce(sum(hits), 0)::bigint FROM usage
                   WHERE token IN (SELECT id FROM tokens WHERE family = $1) AND day >= $2";
        Ok(unsigned(self.database.query_one(sum, &[&family, &day]).await?.get(0)))
    }

    async fn hits_by_day(&self, since: i64) -> Stored<Vec<DayHits>> {
        let sum = "SELECT token, day, sum(hits)::bigint FROM usage WHERE day >= $1 GROUP BY token, day";
        let rows = self.database.query(sum, &[&since]).await?;
        let hits = |row: &Row| DayHits { token: row.get(0), day: row.get(1), hits: unsigned(row.get(2)) };
        Ok(rows.iter().map(hits).collect())
    }
}

impl PostgresStore {
    /// Stores what a node has counted for tokens on UTC days, all in all. These are absolute numbers, so repeating it changes
    /// nothing, and none becomes smaller.
    pub async fn store_usage(&self, node: &str, usage: &[(i64, UsageDelta)]) -> Stored<()> {
        let store = move |work: Work| async move {
            let columns = Columns::of(usage.iter().map(|(day, delta)| (*day, delta)));
            let raise = "INSERT INTO usage (token, day, node, hits, misses, refused)
                SELECT token, day, $6, max(hits), max(misses), max(refused)
                FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[])
                    AS given (token, day, hits, misses, refused)
                GROUP BY token, day
                ON CONFLICT (token, day, node) DO UPDATE SET hits = greatest(usage.hits, excluded.hits),
                    misses = greatest(usage.misses, excluded.misses),
                    refused = greatest(usage.refused, excluded.refused)";
            let Columns { tokens, days, hits, misses, refused } = &columns;
            work.execute(raise, &[tokens, days, hits, misses, refused, &node]).await?;
            touch(&work, usage.iter().map(|(_, delta)| delta)).await
        };
        self.database.prepare(store).await
    }
}

/// Counts by column, as a statement takes them.
#[derive(Default)]
struct Columns<'a> {
    tokens: Vec<&'a str>,
    days: Vec<i64>,
    hits: Vec<i64>,
    misses: Vec<i64>,
    refused: Vec<i64>,
}

impl<'a> Columns<'a> {
    /// Of days.
    fn of(usage: impl Iterator<Item = (i64, &'a UsageDelta)>) -> Self {
        let mut columns = Self::default();
        for (day, UsageDelta { token, hits, misses, refused, .. }) in usage {
            columns.tokens.push(token);
            columns.days.push(day);
            columns.hits.push(signed(*hits));
            columns.misses.push(signed(*misses));
            columns.refused.push(signed(*refused));
        }
        columns
    }
}

/// Stores when tokens were last used. Not a change of the token: nodes need not see it. Locks them in order, because several
/// nodes do this at the same time.
async fn touch(work: &Work, used: impl IntoIterator<Item = &UsageDelta>) -> Tried<()> {
    let used = used.into_iter().filter_map(|used| Some((used.token.as_str(), used.last_used_at?.millis())));
    let (tokens, times): (Vec<&str>, Vec<i64>) = used.unzip();
    if tokens.is_empty() {
        return Ok(());
    }
    let touch = "WITH used AS (
            SELECT token, max(at) AS at FROM unnest($1::text[], $2::bigint[]) AS given (token, at) GROUP BY token
        ), locked AS (
            SELECT id FROM tokens WHERE id IN (SELECT token FROM used) ORDER BY id FOR NO KEY UPDATE
        )
        UPDATE tokens SET last_used_at = greatest(last_used_at, used.at)
        FROM used, locked WHERE tokens.id = used.token AND tokens.id = locked.id";
    work.execute(touch, &[&tokens, &times]).await?;
    Ok(())
}

/// A count as it is stored.
pub(crate) fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// A count as it was stored.
pub(crate) fn unsigned(count: i64) -> u64 {
    u64::try_from(count).unwrap_or(0)
}
