//! Usage counts of tokens by UTC day.
//!
//! A node stores its own counts, as absolute numbers. What was not counted by a node belongs to the node without a name.

use async_trait::async_trait;
use contactd_core::store::{DayHits, StoreError, Usage};
use contactd_core::{Timestamp, UsageDelta};

use crate::PostgresStore;
use crate::database::{Counter, Work};
use crate::failure::Failure;

/// What a node has counted for a token on a UTC day, all in all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeUsage {
    /// The token's id.
    pub token: String,
    /// The day.
    pub day: i64,
    /// Details it received.
    pub hits: u64,
    /// Lookups that found nothing.
    pub misses: u64,
    /// Requests that were refused.
    pub refused: u64,
    /// When it was last accepted; `None` if not on this node.
    pub last_used_at: Option<Timestamp>,
}

/// Counts of tokens and days, as arrays: $1 tokens, $2 days, $3 hits, $4 misses, $5 refused. One that is given twice is added
/// up.
const GIVEN: &str = "SELECT token, day, sum(hits)::bigint, sum(misses)::bigint, sum(refused)::bigint
    FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[])
        AS given (token, day, hits, misses, refused)
    GROUP BY token, day";

#[async_trait]
impl Usage for PostgresStore {
    async fn record_usage(&self, usage: &[UsageDelta], at: Timestamp) -> Result<(), StoreError> {
        // Adding is not the same when it is repeated, so it is made once, as a change is.
        self.database
            .change(Counter::Usage, move |work| async move {
                let mut columns = Columns::default();
                for delta in usage {
                    columns.push(&delta.token, at.day(), [delta.hits, delta.misses, delta.refused]);
                }
                let add = format!(
                    "INSERT INTO usage (token, day, hits, misses, refused) {GIVEN}
                 ON CONFLICT (token, day, node) DO UPDATE SET hits = usage.hits + excluded.hits,
                     misses = usage.misses + excluded.misses, refused = usage.refused + excluded.refused"
                );
                let Columns { tokens, days, hits, misses, refused } = &columns;
                work.execute(&add, &[tokens, days, hits, misses, refused]).await?;
                touch(&work, usage.iter().map(|delta| (delta.token.as_str(), delta.last_used_at))).await
            })
            .await
    }

    async fn hits_since(&self, family: &str, day: i64) -> Result<u64, StoreError> {
        self.database
            .read(move |work| async move {
                let sum = "SELECT coalesce(sum(hits), 0)::bigint FROM usage
                       WHERE token IN (SELECT id FROM tokens WHERE family = $1) AND day >= $2";
                Ok(unsigned(work.query_one(sum, &[&family, &day]).await?.get(0)))
            })
            .await
    }

    async fn hits_by_day(&self, since: i64) -> Result<Vec<DayHits>, StoreError> {
        self.database
            .read(move |work| async move {
                let sum =
                    "SELECT token, day, sum(hits)::bigint FROM usage WHERE day >= $1 GROUP BY token, day";
                let rows = work.query(sum, &[&since]).await?;
                let hits = rows.iter().map(|row| DayHits {
                    token: row.get(0),
                    day: row.get(1),
                    hits: unsigned(row.get(2)),
                });
                Ok(hits.collect())
            })
            .await
    }

    async fn raise_hits(&self, hits: &[DayHits]) -> Result<(), StoreError> {
        self.database
            .change(Counter::Usage, move |work| async move {
                let tokens: Vec<&str> = hits.iter().map(|hits| hits.token.as_str()).collect();
                let days: Vec<i64> = hits.iter().map(|hits| hits.day).collect();
                let counts: Vec<i64> = hits.iter().map(|hits| signed(hits.hits)).collect();
                // What nodes have counted is theirs, so the rest is added to what no node has counted.
                let raise = "INSERT INTO usage (token, day, hits, misses, refused)
                SELECT token, day, greatest(0, max(hits) - coalesce((SELECT sum(usage.hits)::bigint FROM usage
                    WHERE usage.token = given.token AND usage.day = given.day AND node <> ''), 0)), 0, 0
                FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS given (token, day, hits)
                GROUP BY token, day
                ON CONFLICT (token, day, node) DO UPDATE SET hits = greatest(usage.hits, excluded.hits)";
                work.execute(raise, &[&tokens, &days, &counts]).await?;
                Ok(())
            })
            .await
    }
}

impl PostgresStore {
    /// Stores what a node has counted. These are absolute numbers, so repeating it changes nothing, and none becomes smaller.
    pub async fn store_usage(&self, node: &str, rows: &[NodeUsage]) -> Result<(), StoreError> {
        let store = move |work: Work| async move {
            let mut columns = Columns::default();
            for row in rows {
                columns.push(&row.token, row.day, [row.hits, row.misses, row.refused]);
            }
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
            touch(&work, rows.iter().map(|row| (row.token.as_str(), row.last_used_at))).await
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
    fn push(&mut self, token: &'a str, day: i64, [hits, misses, refused]: [u64; 3]) {
        self.tokens.push(token);
        self.days.push(day);
        self.hits.push(signed(hits));
        self.misses.push(signed(misses));
        self.refused.push(signed(refused));
    }
}

/// Stores when tokens were last used. Not a change of the token: nodes need not see it. Locks them in order, because several
/// nodes do this at the same time.
async fn touch(work: &Work, used: impl Iterator<Item = (&str, Option<Timestamp>)>) -> Result<(), Failure> {
    let (tokens, times): (Vec<&str>, Vec<i64>) =
        used.filter_map(|(token, at)| at.map(|at| (token, at.millis()))).unzip();
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
