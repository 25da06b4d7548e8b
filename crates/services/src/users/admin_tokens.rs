//! Tokens of the admin API.

use std::time::Duration;

use contactd_core::{Actor, AdminToken, Lifetime, Role, Timestamp, TokenHash, TokenSecret};

use super::{UserError, Users};
use crate::Changed;
use crate::imports::is_name;

/// How often the use of a token is stored.
const NOTED_EVERY: Duration = Duration::from_secs(60);

/// A new admin token. This is the only time that its secret is known.
#[derive(Debug)]
pub struct IssuedAdminToken {
    /// The secret.
    pub secret: TokenSecret,
    /// The record that is stored.
    pub token: AdminToken,
}

impl Users {
    /// Creates an admin token.
    pub async fn create_admin_token(
        &self,
        actor: &Actor,
        name: &str,
        role: Role,
        lifetime: Lifetime,
    ) -> Result<Changed<IssuedAdminToken>, UserError> {
        let entry = self.parts.entry(actor, "admin-token create");
        let name = name.trim();
        if !is_name(name) {
            return Err(UserError::TokenName);
        }
        if lifetime.is_empty() {
            return Err(UserError::NoLifetime);
        }
        let now = self.parts.clock.now();
        let token = AdminToken::new(name, role, now, lifetime.end(now))?;
        let secret = TokenSecret::generate_admin()?;
        let entry = entry.about(&token.id);
        self.parts.store.create_admin_token(&secret.hash(), &token, Some(&entry)).await?;
        Ok(self.parts.recorded(IssuedAdminToken { secret, token }).await)
    }

    /// All admin tokens, oldest first, including expired and revoked ones.
    pub async fn list_admin_tokens(&self, actor: &Actor) -> Result<Vec<AdminToken>, UserError> {
        actor.note("admin-token list");
        Ok(self.parts.store.list_admin_tokens().await?)
    }

    /// The admin token with this id, for work of its holder that goes on. Leaves no line in the journal.
    pub async fn find_admin_token(&self, id: &str) -> Result<Option<AdminToken>, UserError> {
        Ok(self.parts.store.list_admin_tokens().await?.into_iter().find(|token| token.id == id))
    }

    /// Revokes an admin token now, by id, or by name if only one live token has it. Revoking it again changes nothing.
    pub async fn revoke_admin_token(
        &self,
        actor: &Actor,
        id_or_name: &str,
    ) -> Result<Changed<AdminToken>, UserError> {
        let (entry, now) = (self.parts.entry(actor, "admin-token revoke"), self.parts.clock.now());
        let id = match choose(self.parts.store.list_admin_tokens().await?, id_or_name, now) {
            Ok(id) => id,
            Err(error) => {
                self.parts.note_failure(&entry).await;
                return Err(error);
            }
        };
        let entry = entry.about(&id);
        let revoked = self.parts.store.revoke_admin_token(&id, now, Some(&entry)).await?;
        Ok(self.parts.recorded(revoked.ok_or(UserError::UnknownToken)?).await)
    }

    /// The live admin token with this secret. Its use is stored about once a minute.
    pub async fn recognize(&self, secret: &str) -> Result<Option<AdminToken>, UserError> {
        let Some(hash) = TokenHash::of_admin(secret) else { return Ok(None) };
        let now = self.parts.clock.now();
        let found = self.parts.store.find_admin_token(&hash).await?;
        let Some(token) = found.filter(|token| token.is_live(now)) else { return Ok(None) };
        if token.last_used_at.is_none_or(|at| at.plus(NOTED_EVERY) <= now)
            && let Err(error) = self.parts.store.note_admin_token_use(&token.id, now).await
        {
            tracing::warn!(%error, "the use of an admin token could not be stored");
        }
        Ok(Some(token))
    }
}

/// The id of the token that is meant.
fn choose(mut tokens: Vec<AdminToken>, id_or_name: &str, now: Timestamp) -> Result<String, UserError> {
    if tokens.iter().any(|token| token.id == id_or_name) {
        return Ok(id_or_name.to_owned());
    }
    tokens.retain(|token| token.name == id_or_name);
    if tokens.iter().any(|token| token.is_live(now)) {
        tokens.retain(|token| token.is_live(now));
    } else {
        // All have ended: naming any of them changes nothing.
        tokens.truncate(1);
    }
    let mut ids: Vec<String> = tokens.into_iter().map(|token| token.id).collect();
    match ids.len() {
        1 => Ok(ids.swap_remove(0)),
        0 => Err(UserError::UnknownToken),
        _ => Err(UserError::AmbiguousToken { name: id_or_name.to_owned(), ids }),
    }
}
