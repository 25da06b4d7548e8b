//! What users do with their own account.

use std::fmt;

use contactd_core::{
    Actor, AdminEntry, MOST_PASSWORD_BYTES, NewPassword, PasswordHash, SHORTEST_PASSWORD, TotpSeed, User,
    UserChange,
};
use contactd_core::{accepted_step, setup_uri, to_base32};

use super::{UserError, Users};
use crate::Changed;

/// A second factor that is being set up. Nothing is stored yet.
pub struct TotpSetup {
    /// The secret, for people who type it into their app.
    pub secret_base32: String,
    /// The content of the QR code.
    pub uri: String,
    /// What is stored once the first code is confirmed.
    pub seed: TotpSeed,
}

impl fmt::Debug for TotpSetup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TotpSetup(<redacted>)")
    }
}

impl Users {
    /// Changes the password of a user who knows the current one. Their sessions end; the caller may go on with the
    /// generation that is returned.
    pub async fn change_password(
        &self,
        actor: &Actor,
        name: &str,
        old: &str,
        new: &str,
    ) -> Result<Changed<User>, UserError> {
        if new.chars().count() < SHORTEST_PASSWORD {
            return Err(UserError::TooShort);
        }
        if new.len() > MOST_PASSWORD_BYTES {
            return Err(UserError::TooLong);
        }
        let entry = self.parts.entry(actor, "change password");
        let user = self.authenticated(&entry, name, old).await?;
        if old == new {
            return Err(UserError::SamePassword);
        }
        let new = NewPassword { hash: PasswordHash::of(new)?, must_change: false };
        let if_generation = Some(user.generation);
        let change = UserChange { if_generation, password: Some(new), ..self.ending_sessions()? };
        self.change(entry, name, &change).await
    }

    /// Makes a second factor for a user. It is in use once a code of it is [confirmed](Self::confirm_totp).
    pub async fn begin_totp(&self, actor: &Actor, name: &str) -> Result<TotpSetup, UserError> {
        actor.note("set up TOTP");
        let user = self.find(name).await?.ok_or(UserError::Unknown)?;
        let seed = self.parts.new_totp_seed().await?;
        let secret_base32 = to_base32(&self.parts.totp_secret(&user.name, &seed)?);
        Ok(TotpSetup { uri: setup_uri(&user.name, &secret_base32), secret_base32, seed })
    }

    /// Stores a second factor of a user who knows the password, in place of another one, if the code is one of it. Sessions go
    /// on.
    pub async fn confirm_totp(
        &self,
        actor: &Actor,
        name: &str,
        password: &str,
        seed: TotpSeed,
        code: &str,
    ) -> Result<Changed<User>, UserError> {
        let entry = self.parts.entry(actor, "set up TOTP");
        let user = self.authenticated(&entry, name, password).await?;
        let secret = self.parts.totp_secret(name, &seed)?;
        let now = self.parts.clock.now();
        let step = accepted_step(&secret, code, now, seed.last_step).ok_or(UserError::WrongCode)?;
        let change = UserChange {
            if_generation: Some(user.generation),
            totp: Some(Some(seed)),
            totp_step: Some(step),
            ..UserChange::default()
        };
        self.change(entry, name, &change).await
    }

    /// Removes the second factor of a user who knows the password. Their sessions end; the caller may go on with the
    /// generation that is returned.
    pub async fn remove_totp(
        &self,
        actor: &Actor,
        name: &str,
        password: &str,
    ) -> Result<Changed<User>, UserError> {
        let entry = self.parts.entry(actor, "remove TOTP");
        let user = self.authenticated(&entry, name, password).await?;
        let if_generation = Some(user.generation);
        let change = UserChange { if_generation, totp: Some(None), ..self.ending_sessions()? };
        self.change(entry, name, &change).await
    }

    /// The user, if this is the password; otherwise notes the failure.
    async fn authenticated(&self, entry: &AdminEntry, name: &str, password: &str) -> Result<User, UserError> {
        let user = self.find(name).await?.ok_or(UserError::Unknown)?;
        if user.is_enabled() && user.password.is_of(password) {
            return Ok(user);
        }
        self.parts.note_failure(&entry.clone().about_name(&user.name, None)).await;
        Err(UserError::WrongPassword)
    }
}
