//! Tokens, suppressions and usage: small, and in force at once.

use crate::store::StoreFuture;
use crate::{SubjectDigest, Timestamp, Token, TokenHash, UsageDelta};

/// Tokens.
pub trait Tokens: Send + Sync + 'static {
    /// Keeps a new token. Committed and synced when this returns.
    fn create_token(&self, hash: &TokenHash, token: &Token) -> impl StoreFuture<()>;

    /// Every token, oldest first, including those that have ended.
    fn list_tokens(&self) -> impl StoreFuture<Vec<(TokenHash, Token)>>;

    /// Ends a token now. None if there is no such token; ending it again changes nothing. Committed and
    /// synced when this returns.
    fn revoke_token(&self, id: &str, at: Timestamp) -> impl StoreFuture<Option<Token>>;

    /// Keeps a new token in place of `old`, which ends at `old_ends_at` or earlier. Both or neither,
    /// committed and synced when this returns. False if `old` does not exist or is revoked.
    fn rotate_token(
        &self,
        old: &str,
        old_ends_at: Timestamp,
        hash: &TokenHash,
        token: &Token,
    ) -> impl StoreFuture<bool>;
}

/// Suppressions.
pub trait Suppressions: Send + Sync + 'static {
    /// Suppresses all of these or none. Committed and synced when this returns. Returns how many were new;
    /// suppressing twice is not an error.
    fn suppress(&self, subjects: &[SubjectDigest], at: Timestamp) -> impl StoreFuture<u64>;

    /// Takes suppressions back. Returns how many there were.
    fn unsuppress(&self, subjects: &[SubjectDigest]) -> impl StoreFuture<u64>;

    /// Since when one of these has been suppressed: the earliest time. None if none of them is.
    fn find_suppression(&self, subjects: &[SubjectDigest]) -> impl StoreFuture<Option<Timestamp>>;

    /// Every suppression.
    fn list_suppressions(&self) -> impl StoreFuture<Vec<SubjectDigest>>;
}

/// What tokens did, by UTC day.
pub trait Usage: Send + Sync + 'static {
    /// Adds to the counts of the day that `at` is in.
    fn record_usage(&self, usage: &[UsageDelta], at: Timestamp) -> impl StoreFuture<()>;

    /// Hits of a token since the beginning of a UTC day.
    fn hits_since(&self, token: &str, day: i64) -> impl StoreFuture<u64>;
}
