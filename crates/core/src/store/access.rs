//! Tokens, suppressions and usage.

use crate::store::{Noted, StoreFuture};
use crate::{SubjectDigest, Timestamp, Token, TokenHash, TokenUpdate, UpdatedToken, UsageDelta};

/// Tokens.
pub trait Tokens: Send + Sync + 'static {
    /// Stores a new token. Committed and synced when this returns.
    fn create_token(&self, hash: &TokenHash, token: &Token, entry: Noted<'_>) -> impl StoreFuture<()>;

    /// All tokens, oldest first, including expired and revoked ones.
    fn list_tokens(&self) -> impl StoreFuture<Vec<(TokenHash, Token)>>;

    /// Revokes a token. `None` if there is no such token; revoking it again changes nothing. Committed and synced
    /// when this returns.
    fn revoke_token(&self, id: &str, at: Timestamp, entry: Noted<'_>) -> impl StoreFuture<Option<Token>>;

    /// Stores a new token in place of `old`, which expires at `old_ends_at` or earlier. Changes both or neither;
    /// committed and synced when this returns. False if `old` does not exist or is revoked.
    fn rotate_token(
        &self,
        old: &str,
        old_ends_at: Timestamp,
        hash: &TokenHash,
        token: &Token,
        entry: Noted<'_>,
    ) -> impl StoreFuture<bool>;

    /// Updates a token that is live at `at`. A new quota also applies to all other live tokens of its family. `None` if
    /// there is no such token, or it has ended. Committed and synced when this returns.
    fn update_token(
        &self,
        id: &str,
        update: &TokenUpdate,
        at: Timestamp,
        entry: Noted<'_>,
    ) -> impl StoreFuture<Option<UpdatedToken>>;
}

/// Suppressions.
pub trait Suppressions: Send + Sync + 'static {
    /// Suppresses all of these or none. Committed and synced when this returns. Returns how many were new;
    /// suppressing twice is not an error.
    fn suppress(&self, subjects: &[SubjectDigest], at: Timestamp, entry: Noted<'_>) -> impl StoreFuture<u64>;

    /// Removes suppressions. Returns how many of them existed.
    fn unsuppress(&self, subjects: &[SubjectDigest], entry: Noted<'_>) -> impl StoreFuture<u64>;

    /// The earliest time at which one of these was suppressed; `None` if none of them is.
    fn find_suppression(&self, subjects: &[SubjectDigest]) -> impl StoreFuture<Option<Timestamp>>;

    /// All suppressions.
    fn list_suppressions(&self) -> impl StoreFuture<Vec<SubjectDigest>>;
}

/// Usage of tokens, by UTC day.
pub trait Usage: Send + Sync + 'static {
    /// Adds to the counts of the UTC day of `at`.
    fn record_usage(&self, usage: &[UsageDelta], at: Timestamp) -> impl StoreFuture<()>;

    /// Hits of all tokens of a family, also of those that have ended, since the start of a UTC day.
    fn hits_since(&self, family: &str, day: i64) -> impl StoreFuture<u64>;

    /// Hits of every token and day since the start of a UTC day.
    fn hits_by_day(&self, since: i64) -> impl StoreFuture<Vec<DayHits>>;

    /// Makes counts at least this high: all of them or none. Committed and synced when this returns.
    fn raise_hits(&self, hits: &[DayHits]) -> impl StoreFuture<()>;
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
