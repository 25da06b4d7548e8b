//! Logging in.

use contactd_core::accepted_step;
use contactd_core::store::StoreError;
use contactd_core::{Actor, NotRecorded, PasswordHash, User, UserChange, UserChanged, Via};

use super::{LoginError, Users};

/// Whom the journal names if the name of a log-in is unknown. No user can have this name.
const NOBODY: &str = "(unknown)";

impl Users {
    /// Logs a user in. Unknown, wrong and disabled look the same and cost the same work: each hashes once and leaves one
    /// line. So does a right password without its code, with `code needed`, until the code comes. An unknown name is not in that line, because it may be a password.
    ///
    /// Works also while the journal cannot be written, because opt-outs must work then. The line waits in the store.
    pub async fn log_in(
        &self,
        via: Via,
        name: &str,
        password: &str,
        code: Option<&str>,
    ) -> Result<User, LoginError> {
        let found = self.find_right(via, &name.trim().to_ascii_lowercase()).await?;
        let hash = found.as_ref().map_or_else(PasswordHash::nobodys, |user| user.password.clone());
        let is_right = hash.is_of(password);
        let actor = Actor::new(found.as_ref().map_or(NOBODY, |user| &user.name), via);
        let Some(user) = found.filter(|user| is_right && user.is_enabled()) else {
            return Err(self.refused(&actor, None, LoginError::Wrong).await);
        };
        let now = self.parts.clock.now();
        let mut change = UserChange {
            if_generation: Some(user.generation.clone()),
            last_login_at: Some(now),
            ..UserChange::default()
        };
        if let Some(seed) = &user.totp {
            let secret = self.parts.totp_secret(&user.name, seed)?;
            let Some(code) = code.filter(|code| !code.trim().is_empty()) else {
                // The first half of a log-in, or somebody who has the password and nothing else.
                return Err(self.refused(&actor, Some("code needed"), LoginError::CodeNeeded).await);
            };
            change.totp_step = accepted_step(&secret, code, now, seed.last_step);
            if change.totp_step.is_none() {
                return Err(self.refused(&actor, Some("wrong code"), LoginError::CodeNeeded).await);
            }
        }
        match self.note_log_in(&actor, &user, &change).await? {
            UserChanged::Done(user) => Ok(user),
            // Somebody was quicker: with the same code, or with a change of the account.
            _ if change.totp_step.is_some() => {
                Err(self.refused(&actor, Some("wrong code"), LoginError::CodeNeeded).await)
            }
            _ => Err(self.refused(&actor, None, LoginError::Wrong).await),
        }
    }

    /// Logs a user in who came by a link that was made for them. The caller has checked the link.
    pub async fn log_in_by_link(&self, via: Via, name: &str) -> Result<User, LoginError> {
        let actor = Actor::new(name, via);
        let found = self.find_right(via, name).await?;
        let Some(user) = found.filter(User::is_enabled) else {
            return Err(self.refused(&actor, None, LoginError::Wrong).await);
        };
        let change = UserChange { last_login_at: Some(self.parts.clock.now()), ..UserChange::default() };
        match self.note_log_in(&actor, &user, &change).await? {
            UserChanged::Done(user) => Ok(user),
            _ => Err(LoginError::Wrong),
        }
    }

    /// The user with this name. If somebody changed accounts in the database, that a log-in was refused is on record.
    async fn find_right(&self, via: Via, name: &str) -> Result<Option<User>, LoginError> {
        let found = self.parts.store.find_user(name).await;
        if let Err(StoreError::Tampered(_)) = &found {
            let actor = Actor::new(NOBODY, via);
            self.parts.note_failure(&self.parts.entry(&actor, "log in")).await;
        }
        Ok(found?)
    }

    /// Stores when a user logged in, with the line for the journal.
    async fn note_log_in(
        &self,
        actor: &Actor,
        user: &User,
        change: &UserChange,
    ) -> Result<UserChanged, LoginError> {
        let entry = self.parts.entry(actor, "log in");
        let changed = self.parts.store.change_user(&user.name, change, Some(&entry)).await?;
        if matches!(changed, UserChanged::Done(_))
            && let Err(error @ NotRecorded::Unavailable(_)) =
                self.parts.on_record.collect(&[&entry.entry]).await
        {
            tracing::warn!(%error, "a log-in is not yet on record");
        }
        Ok(changed)
    }

    /// Notes a failed log-in, and what was missing although the password was right.
    async fn refused(&self, actor: &Actor, missing: Option<&str>, error: LoginError) -> LoginError {
        let entry = self.parts.entry(actor, "log in");
        self.parts.note_failure(&missing.map_or(entry.clone(), |missing| entry.about(missing))).await;
        error
    }
}
