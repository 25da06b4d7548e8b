//! Users and admin tokens.

use async_trait::async_trait;

use crate::store::{Noted, StoreError};
use crate::{AdminToken, Timestamp, TokenHash, User, UserChange, UserChanged};

/// Users of the console, and tokens of the admin API. Lookups do not read them, so their changes are none of
/// [`Changes`](crate::store::Changes).
#[async_trait]
pub trait Accounts: Send + Sync + 'static {
    /// Stores a new user. False, and nothing is changed, if there is a user with that name, disabled or not. Committed
    /// and synced when this returns.
    async fn create_user(&self, user: &User, entry: Noted<'_>) -> Result<bool, StoreError>;

    /// The user with this name.
    async fn find_user(&self, name: &str) -> Result<Option<User>, StoreError>;

    /// All users, in the order of their names.
    async fn list_users(&self) -> Result<Vec<User>, StoreError>;

    /// Changes a user as [`UserChange::decide`] says, with nobody else changing users meanwhile. The entry is stored if
    /// it was done. Committed and synced when this returns.
    async fn change_user(
        &self,
        name: &str,
        change: &UserChange,
        entry: Noted<'_>,
    ) -> Result<UserChanged, StoreError>;

    /// Stores a new admin token. Committed and synced when this returns.
    async fn create_admin_token(
        &self,
        hash: &TokenHash,
        token: &AdminToken,
        entry: Noted<'_>,
    ) -> Result<(), StoreError>;

    /// The admin token with this hash, live or not.
    async fn find_admin_token(&self, hash: &TokenHash) -> Result<Option<AdminToken>, StoreError>;

    /// All admin tokens, oldest first, including expired and revoked ones.
    async fn list_admin_tokens(&self) -> Result<Vec<AdminToken>, StoreError>;

    /// Revokes an admin token. `None` if there is no such token; revoking it again changes nothing. Committed and synced
    /// when this returns.
    async fn revoke_admin_token(
        &self,
        id: &str,
        at: Timestamp,
        entry: Noted<'_>,
    ) -> Result<Option<AdminToken>, StoreError>;

    /// Stores that an admin token was used, unless a later time is stored.
    async fn note_admin_token_use(&self, id: &str, at: Timestamp) -> Result<(), StoreError>;
}
