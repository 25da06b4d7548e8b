//! Users and admin tokens.

use crate::store::{Noted, StoreFuture};
use crate::{AdminToken, Timestamp, TokenHash, User, UserChange, UserChanged};

/// Users of the console, and tokens of the admin API. Lookups do not read them, so their changes are none of
/// [`Changes`](crate::store::Changes).
pub trait Accounts: Send + Sync + 'static {
    /// Stores a new user. False, and nothing is changed, if there is a user with that name, disabled or not. Committed
    /// and synced when this returns.
    fn create_user(&self, user: &User, entry: Noted<'_>) -> impl StoreFuture<bool>;

    /// The user with this name.
    fn find_user(&self, name: &str) -> impl StoreFuture<Option<User>>;

    /// All users, in the order of their names.
    fn list_users(&self) -> impl StoreFuture<Vec<User>>;

    /// Changes a user as [`UserChange::decide`] says, with nobody else changing users meanwhile. The entry is stored if
    /// it was done. Committed and synced when this returns.
    fn change_user(&self, name: &str, change: &UserChange, entry: Noted<'_>)
    -> impl StoreFuture<UserChanged>;

    /// Stores a new admin token. Committed and synced when this returns.
    fn create_admin_token(
        &self,
        hash: &TokenHash,
        token: &AdminToken,
        entry: Noted<'_>,
    ) -> impl StoreFuture<()>;

    /// The admin token with this hash, live or not.
    fn find_admin_token(&self, hash: &TokenHash) -> impl StoreFuture<Option<AdminToken>>;

    /// All admin tokens, oldest first, including expired and revoked ones.
    fn list_admin_tokens(&self) -> impl StoreFuture<Vec<AdminToken>>;

    /// Revokes an admin token. `None` if there is no such token; revoking it again changes nothing. Committed and synced
    /// when this returns.
    fn revoke_admin_token(
        &self,
        id: &str,
        at: Timestamp,
        entry: Noted<'_>,
    ) -> impl StoreFuture<Option<AdminToken>>;

    /// Stores that an admin token was used, unless a later time is stored.
    fn note_admin_token_use(&self, id: &str, at: Timestamp) -> impl StoreFuture<()>;
}
