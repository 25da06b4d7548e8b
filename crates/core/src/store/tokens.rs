//! Tokens.

use async_trait::async_trait;

use crate::store::entities::{Entities, change, list};
use crate::store::{Noted, Stored};
use crate::{Timestamp, Token, TokenHash, TokenUpdate, UpdatedToken, looks_like};

/// Tokens. What changes them is committed and synced when it returns.
#[async_trait]
pub trait Tokens: Entities {
    /// Stores a new token; unless a token of another family has a name that [looks like](looks_like) its name, ended or not:
    /// then nothing is stored, and the newest of those is returned.
    async fn create_token(&self, hash: &TokenHash, token: &Token, entry: Noted<'_>) -> Stored<Option<Token>> {
        change(self, entry, |tokens: Vec<(TokenHash, Token)>| {
            let is_namesake =
                |other: &Token| other.family != token.family && looks_like(&other.name, &token.name);
            let namesake = tokens.into_iter().map(|(_, other)| other).rfind(is_namesake);
            (namesake.is_none().then(|| vec![(*hash, token.clone())]), namesake)
        })
        .await
    }

    /// All tokens, oldest first, including expired and revoked ones.
    async fn list_tokens(&self) -> Stored<Vec<(TokenHash, Token)>> {
        list(self).await
    }

    /// Revokes a token. `None` if there is no such token; revoking it again changes nothing.
    async fn revoke_token(&self, id: &str, at: Timestamp, entry: Noted<'_>) -> Stored<Option<Token>> {
        change(self, entry, |tokens| {
            let found = find(tokens, id).map(|(hash, token)| {
                let revoked_at = token.revoked_at.or(Some(at));
                (hash, Token { revoked_at, ..token })
            });
            (found.clone().map(|found| vec![found]), found.map(|(_, token)| token))
        })
        .await
    }

    /// Stores a new token in place of `old`, which expires at `old_ends_at` or earlier, or has ended already. Changes both or
    /// neither. False if `old` does not exist.
    async fn rotate_token(
        &self,
        old: &str,
        old_ends_at: Timestamp,
        hash: &TokenHash,
        token: &Token,
        entry: Noted<'_>,
    ) -> Stored<bool> {
        change(self, entry, |tokens| {
            let Some((old_hash, old)) = find(tokens, old) else { return (None, false) };
            (Some(vec![(old_hash, old.ending(old_ends_at)), (*hash, token.clone())]), true)
        })
        .await
    }

    /// Updates a token that is live at `at`. A new quota also applies to all other live tokens of its family. `None` if
    /// there is no such token, or it has ended.
    async fn update_token(
        &self,
        id: &str,
        update: &TokenUpdate,
        at: Timestamp,
        entry: Noted<'_>,
    ) -> Stored<Option<UpdatedToken>> {
        change(self, entry, |mut tokens: Vec<(TokenHash, Token)>| {
            tokens.retain(|(_, token)| token.is_live(at));
            let Some((hash, before)) = find(tokens.clone(), id) else { return (None, None) };
            let after = update.apply(&before, at);
            let is_sharing =
                |other: &Token| update.quota.is_some() && other.family == before.family && other.id != id;
            tokens.retain(|(_, other)| is_sharing(other));
            let sharing = tokens.iter().map(|(_, other)| other.id.clone()).collect();
            let quota = after.quota;
            let mut stored: Vec<_> =
                tokens.into_iter().map(|(hash, other)| (hash, Token { quota, ..other })).collect();
            stored.push((hash, after.clone()));
            (Some(stored), Some(UpdatedToken { before, after, sharing }))
        })
        .await
    }
}

impl<S: Entities + ?Sized> Tokens for S {}

fn find(tokens: Vec<(TokenHash, Token)>, id: &str) -> Option<(TokenHash, Token)> {
    tokens.into_iter().find(|(_, token)| token.id == id)
}
