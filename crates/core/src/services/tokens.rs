//! Creating, listing, revoking and rotating tokens.

use std::sync::Arc;
use std::time::Duration;

use crate::services::Parts;
use crate::store::{Outbox, StoreError, Tokens};
use crate::{
    Actor, Affected, Changed, Committed, Lifetime, Quota, Rate, Scopes, Timestamp, Token, TokenSecret,
};

/// Issues and revokes tokens.
pub struct TokenIssuer<S> {
    parts: Arc<Parts<S>>,
}

/// The properties of a new token.
#[derive(Clone, Debug)]
pub struct NewToken {
    /// Who it is for.
    pub name: String,
    /// What it may look up.
    pub scopes: Scopes,
    /// How long it is valid.
    pub lifetime: Lifetime,
    /// How often it may send requests.
    pub rate: Option<Rate>,
    /// How many hits it may have.
    pub quota: Option<Quota>,
}

/// A newly created token. This is the only time that its secret is known.
#[derive(Debug)]
pub struct IssuedToken {
    /// The secret.
    pub secret: TokenSecret,
    /// The record that is stored.
    pub token: Token,
}

/// Why a token was not created, changed or found.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// There is no such token.
    #[error("there is no token with the id {0}; `contactd token list` shows the ids")]
    Unknown(String),
    /// It is revoked or has expired, so it cannot be rotated.
    #[error("{0} has ended; `contactd token create` makes a new one")]
    Ended(String),
    /// The system provides no random numbers.
    #[error("no randomness from the system: {0}")]
    Random(#[from] getrandom::Error),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl<S: Tokens + Outbox> TokenIssuer<S> {
    pub(super) fn new(parts: Arc<Parts<S>>) -> Self {
        Self { parts }
    }

    /// Creates a token.
    pub async fn create(&self, actor: &Actor, new: NewToken) -> Result<Committed<IssuedToken>, TokenError> {
        let entry = self.parts.entry(actor, "token create");
        let now = self.parts.clock.now();
        let token = Token {
            scopes: new.scopes,
            expires_at: end(new.lifetime, now),
            rate: new.rate,
            quota: new.quota,
            ..Token::new(&new.name, now)?
        };
        let secret = TokenSecret::generate()?;
        let entry = entry.about(&token.id);
        self.parts.store.create_token(&secret.hash(), &token, Some(&entry)).await?;
        Ok(Committed::new(IssuedToken { secret, token }, self.parts.announcer(), Affected::Access))
    }

    /// All tokens, oldest first, including expired and revoked ones.
    pub async fn list(&self, actor: &Actor) -> Result<Vec<Token>, TokenError> {
        actor.note("token list");
        let tokens = self.parts.store.list_tokens().await?;
        Ok(tokens.into_iter().map(|(_, token)| token).collect())
    }

    /// Revokes a token now. Revoking it again changes nothing.
    pub async fn revoke(&self, actor: &Actor, id: &str) -> Result<Changed<Token>, TokenError> {
        let entry = self.parts.entry(actor, "token revoke").about(id);
        let revoked = self.parts.store.revoke_token(id, self.parts.clock.now(), Some(&entry)).await?;
        let Some(token) = revoked else {
            self.parts.note_failure(&entry).await;
            return Err(TokenError::Unknown(id.to_owned()));
        };
        Ok(self.parts.announce(token, Affected::Access).await)
    }

    /// Creates a token in place of another one, which stays valid for `overlap` at most. Unless `lifetime` is
    /// given, the new token gets the lifetime of the old one, from creation to expiry.
    pub async fn rotate(
        &self,
        actor: &Actor,
        id: &str,
        overlap: Duration,
        lifetime: Option<Lifetime>,
    ) -> Result<Committed<IssuedToken>, TokenError> {
        let entry = self.parts.entry(actor, "token rotate").about(id);
        let now = self.parts.clock.now();
        let unknown = || TokenError::Unknown(id.to_owned());
        let tokens = self.parts.store.list_tokens().await?;
        let old = tokens.iter().map(|(_, token)| token).find(|token| token.id == id).ok_or_else(unknown)?;
        if !old.is_live(now) {
            return Err(TokenError::Ended(id.to_owned()));
        }
        let same_lifetime = || {
            let millis = old.expires_at?.millis() - old.created_at.millis();
            Some(Timestamp::from_millis(now.millis() + millis))
        };
        let token = Token {
            scopes: old.scopes,
            rate: old.rate,
            quota: old.quota,
            expires_at: lifetime.map_or_else(same_lifetime, |lifetime| end(lifetime, now)),
            ..Token::new(&old.name, now)?
        };
        let secret = TokenSecret::generate()?;
        let ends = now.plus(overlap);
        if !self.parts.store.rotate_token(id, ends, &secret.hash(), &token, Some(&entry)).await? {
            return Err(unknown());
        }
        Ok(Committed::new(IssuedToken { secret, token }, self.parts.announcer(), Affected::Access))
    }
}

fn end(lifetime: Lifetime, now: Timestamp) -> Option<Timestamp> {
    match lifetime {
        Lifetime::For(length) => Some(now.plus(length)),
        Lifetime::Forever => None,
    }
}
