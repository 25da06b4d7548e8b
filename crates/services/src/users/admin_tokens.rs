//! Tokens of the admin API.

use std::time::Duration;

use contactd_core::store::StoreError;
use contactd_core::{
    Actor, AdminEntry, AdminToken, Lifetime, Role, Timestamp, TokenHash, TokenSecret, new_name,
};

use super::{UserError, Users};
use crate::Changed;

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
    /// Creates an admin token for a user, or for whoever has the machine, with a name that no other one has or had.
    pub async fn create_admin_token(
        &self,
        actor: &Actor,
        owner: Option<&str>,
        name: &str,
        role: Role,
        lifetime: Lifetime,
    ) -> Result<Changed<IssuedAdminToken>, UserError> {
        let entry = self.parts.entry(actor, "admin-token create");
        let name = new_name(name)?;
        if lifetime.is_empty() {
            return Err(UserError::NoLifetime);
        }
        let now = self.parts.clock.now();
        let token = AdminToken {
            owner: owner.map(str::to_owned),
            ..AdminToken::new(name, role, now, lifetime.end(now))?
        };
        let secret = TokenSecret::generate_admin()?;
        let about = entry.clone().about(&token.id);
        let namesake = self.parts.store.create_admin_token(&secret.hash(), &token, Some(&about)).await?;
        if let Some(namesake) = namesake {
            self.parts.note_failure(&entry.about(&namesake.id)).await;
            return Err(UserError::TokenTaken(namesake.id));
        }
        Ok(self.parts.recorded(IssuedAdminToken { secret, token }, &[&about.entry]).await)
    }

    /// All admin tokens, oldest first, including expired and revoked ones.
    pub async fn list_admin_tokens(&self, actor: &Actor) -> Result<Vec<AdminToken>, UserError> {
        actor.note("admin-token list");
        let mut tokens = self.parts.store.list_admin_tokens().await?;
        let users = self.parts.store.list_users().await?;
        tokens.iter_mut().for_each(|token| token.look_at_owner(&users));
        Ok(tokens)
    }

    /// The admin token with this id, for work of its holder that goes on. Leaves no line in the journal.
    pub async fn find_admin_token(&self, id: &str) -> Result<Option<AdminToken>, UserError> {
        let found = self.parts.store.list_admin_tokens().await?.into_iter().find(|token| token.id == id);
        self.with_owner(found).await
    }

    /// A token that was found, suspended if its owner is no admin who can log in.
    async fn with_owner(&self, mut found: Option<AdminToken>) -> Result<Option<AdminToken>, UserError> {
        if let Some(token) = found.as_mut().filter(|token| token.owner.is_some()) {
            token.look_at_owner(&self.parts.store.list_users().await?);
        }
        Ok(found)
    }

    /// Revokes an admin token now, by id, or by name if only one live token has it. Revoking it again changes nothing.
    pub async fn revoke_admin_token(
        &self,
        actor: &Actor,
        id_or_name: &str,
    ) -> Result<Changed<AdminToken>, UserError> {
        let (id, entry) = self.choose(self.parts.entry(actor, "admin-token revoke"), id_or_name).await?;
        let (store, now) = (&self.parts.store, self.parts.clock.now());
        let revoked = match store.revoke_admin_token(&id, now, Some(&entry)).await {
            Err(StoreError::NotNoted) => store.revoke_admin_token(&id, now, None).await?,
            revoked => revoked?,
        };
        Ok(self.parts.recorded(revoked.ok_or(UserError::UnknownToken)?, &[&entry.entry]).await)
    }

    /// Makes an admin token, by id or name, that of another user, or of whoever has the machine. So it goes on when its owner's account
    /// does not. One that has ended stays so.
    pub async fn take_over_admin_token(
        &self,
        actor: &Actor,
        owner: Option<&str>,
        id_or_name: &str,
    ) -> Result<Changed<AdminToken>, UserError> {
        let (id, entry) = self.choose(self.parts.entry(actor, "admin-token take-over"), id_or_name).await?;
        let taken = self.parts.store.give_admin_token(&id, owner, Some(&entry)).await?;
        let taken = self.with_owner(taken).await?.ok_or(UserError::UnknownToken)?;
        Ok(self.parts.recorded(taken, &[&entry.entry]).await)
    }

    /// The id of the token that is meant, and the entry about it. If there is none, the failure is noted.
    async fn choose(&self, entry: AdminEntry, id_or_name: &str) -> Result<(String, AdminEntry), UserError> {
        loop {
            let server = self.parts.store.server();
            let tokens = self.parts.store.list_admin_tokens().await?;
            match choose(tokens, id_or_name, self.parts.clock.now()) {
                Ok(id) => {
                    let entry = entry.about(&id);
                    return Ok((id, entry));
                }
                Err(error) if self.parts.is_missing_for_certain(server).await? => {
                    self.parts.note_failure(&entry).await;
                    return Err(error);
                }
                Err(_) => {}
            }
        }
    }

    /// The live admin token with this secret, which is refused while its owner is no admin who can log in. Its use is stored about once a minute.
    pub async fn recognize(&self, secret: &str) -> Result<Option<AdminToken>, UserError> {
        let Some(hash) = TokenHash::of_admin(secret) else { return Ok(None) };
        let now = self.parts.clock.now();
        let found = self.with_owner(self.parts.store.find_admin_token(&hash).await?).await?;
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
