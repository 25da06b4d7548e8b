//! Users of the console, and tokens of the admin API.
//!
//! No password, code, secret or hash is in an entry, a log line or an error. Nor is a text that is not the name of a user:
//! it may be a password in the wrong field.

mod admin_tokens;
mod error;
mod log_in;
mod own;
mod second_factor;

use std::fmt;
use std::sync::Arc;

pub use admin_tokens::IssuedAdminToken;
pub use error::{LoginError, UserError};
pub use own::TotpSetup;
pub use second_factor::ReadSecondFactorKey;

use contactd_core::one_time_password;
use contactd_core::{
    Actor, AdminEntry, NewPassword, PasswordHash, Role, User, UserChange, UserChanged, UserName,
};

use crate::Changed;
use crate::Parts;

/// Manages accounts, and recognises who uses them.
///
/// Whoever has a session asks [`find`](Self::find) with every request, so a change is in force when its method returns.
/// Methods that take or make a password hash it on the thread that polls them, for some 20 ms.
pub struct Users {
    pub(crate) parts: Arc<Parts>,
}

/// A user with a new one-time password. This is the only time that it is known.
pub struct NewUser {
    /// The user.
    pub user: User,
    /// The password, which has to be changed at the first log-in.
    pub password: String,
}

impl fmt::Debug for NewUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewUser").field("user", &self.user).finish_non_exhaustive()
    }
}

impl Users {
    /// Creates a user with a one-time password.
    pub async fn create(&self, actor: &Actor, name: &str, role: Role) -> Result<Changed<NewUser>, UserError> {
        let entry = self.parts.entry(actor, "user create");
        let name = UserName::parse(name)?;
        let entry = entry.about_name(name.as_str(), Some(role));
        let password = one_time_password()?;
        let user = User::new(name.as_str(), role, PasswordHash::of(&password)?, self.parts.clock.now())?;
        if !self.parts.store.create_user(&user, Some(&entry)).await? {
            self.parts.note_failure(&entry).await;
            return Err(UserError::Exists(user.name));
        }
        Ok(self.parts.recorded(NewUser { user, password }, &[&entry.entry]).await)
    }

    /// All users, in the order of their names.
    pub async fn list(&self, actor: &Actor) -> Result<Vec<User>, UserError> {
        actor.note("user list");
        Ok(self.parts.store.list_users().await?)
    }

    /// Whether there is a user at all, disabled or not. Leaves no line in the journal.
    pub async fn are_there_any(&self) -> Result<bool, UserError> {
        Ok(!self.parts.store.list_users().await?.is_empty())
    }

    /// The user with this name, for a session that is used. Leaves no line in the journal.
    pub async fn find(&self, name: &str) -> Result<Option<User>, UserError> {
        Ok(self.parts.store.find_user(name).await?)
    }

    /// Disables a user: they cannot log in, their sessions end, and [their admin tokens](contactd_core::AdminToken::owner) are refused.
    /// Doing it again changes nothing.
    pub async fn disable(&self, actor: &Actor, name: &str) -> Result<Changed<User>, UserError> {
        let at = Some(Some(self.parts.clock.now()));
        let change = UserChange { disabled_at: at, ..self.ending_sessions()? };
        self.change(self.parts.entry(actor, "user disable"), name, &change).await
    }

    /// Lets a disabled user log in again.
    pub async fn enable(&self, actor: &Actor, name: &str) -> Result<Changed<User>, UserError> {
        let change = UserChange { disabled_at: Some(None), ..UserChange::default() };
        self.change(self.parts.entry(actor, "user enable"), name, &change).await
    }

    /// Gives a user another role. Their sessions end, and the admin tokens of who is no admin any more are refused.
    pub async fn set_role(&self, actor: &Actor, name: &str, role: Role) -> Result<Changed<User>, UserError> {
        let change = UserChange { role: Some(role), ..self.ending_sessions()? };
        self.change(self.parts.entry(actor, "user role"), name, &change).await
    }

    /// Gives a user a new one-time password. Their sessions end. The second factor stays.
    pub async fn reset_password(&self, actor: &Actor, name: &str) -> Result<Changed<NewUser>, UserError> {
        let entry = self.parts.entry(actor, "user password");
        let password = one_time_password()?;
        let new = NewPassword { hash: PasswordHash::of(&password)?, must_change: true };
        let change = UserChange { password: Some(new), ..self.ending_sessions()? };
        Ok(self.change(entry, name, &change).await?.map(|user| NewUser { user, password }))
    }

    /// Removes the second factor of a user who has lost it. Their sessions end.
    pub async fn reset_totp(&self, actor: &Actor, name: &str) -> Result<Changed<User>, UserError> {
        let change = UserChange { totp: Some(None), ..self.ending_sessions()? };
        self.change(self.parts.entry(actor, "user reset-totp"), name, &change).await
    }

    /// A change of nothing yet, which ends the sessions of the user if it becomes one.
    fn ending_sessions(&self) -> Result<UserChange, UserError> {
        Ok(UserChange { generation: Some(User::new_generation()?), ..UserChange::default() })
    }

    /// Makes a change, or notes that it failed.
    async fn change(
        &self,
        entry: AdminEntry,
        name: &str,
        change: &UserChange,
    ) -> Result<Changed<User>, UserError> {
        let about = entry.clone().about_name(name, change.role);
        let error = match self.parts.store.change_user(name, change, Some(&about)).await? {
            UserChanged::Done(user) => return Ok(self.parts.recorded(user, &[&about.entry]).await),
            UserChanged::Unknown => {
                self.parts.note_failure(&entry).await;
                return Err(UserError::Unknown);
            }
            UserChanged::LastAdmin => UserError::LastAdmin(name.to_owned()),
            UserChanged::Outdated => UserError::Outdated,
        };
        self.parts.note_failure(&about).await;
        Err(error)
    }
}
