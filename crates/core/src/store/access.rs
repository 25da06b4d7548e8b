//! Suppressions and usage.

use async_trait::async_trait;

use crate::store::{Noted, Stored};
use crate::{SubjectDigest, Timestamp, UsageDelta};

/// Suppressions.
#[async_trait]
pub trait Suppressions: Send + Sync + 'static {
    /// Suppresses all of these or none. Committed and synced when this returns. Returns how many were new;
    /// suppressing twice is not an error.
    async fn suppress(&self, subjects: &[SubjectDigest], at: Timestamp, entry: Noted<'_>) -> Stored<u64>;

    /// Removes suppressions. Returns how many of them existed.
    async fn unsuppress(&self, subjects: &[SubjectDigest], entry: Noted<'_>) -> Stored<u64>;

    /// The earliest time at which one of these was suppressed; `None` if none of them is.
    async fn find_suppression(&self, subjects: &[SubjectDigest]) -> Stored<Option<Timestamp>>;

    /// All suppressions.
    async fn list_suppressions(&self) -> Stored<Vec<SubjectDigest>>;
}

/// Usage of tokens, by UTC day.
#[async_trait]
pub trait Usage: Send + Sync + 'static {
    /// Adds to the counts of the UTC day of `at`.
    async fn record_usage(&self, usage: &[UsageDelta], at: Timestamp) -> Stored<()>;

    /// Hits of all tokens of a family, also of those that have ended, since the start of a UTC day.
    async fn hits_since(&self, family: &str, day: i64) -> Stored<u64>;

    /// Hits of every token and day since the start of a UTC day.
    async fn hits_by_day(&self, since: i64) -> Stored<Vec<DayHits>>;
}

/// Hits of a token on a UTC day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DayHits {
    /// The token's id.
    pub token: String,
    /// The day.
    pub day: i64,
    /// Details it received.
    pub hits: u64,
}
