//! Users and admin tokens.

use async_trait::async_trait;

use crate::store::entities::{Entities, EntityRow, EntityTable, change, from_rows, list};
use crate::store::{Noted, Stored};
use crate::{AdminToken, Timestamp, TokenHash, User, UserChange, UserChanged, looks_like};

/// Users of the console, and tokens of the admin API. Lookups do not read them, so their changes are none of
/// [`Changes`](crate::store::Changes). What changes them is committed and synced when it returns.
#[async_trait]
pub trait Accounts: Entities {
    /// Stores a new user. False, and nothing is changed, if there is a user with that name, disabled or not.
    async fn create_user(&self, user: &User, entry: Noted<'_>) -> Stored<bool> {
        change(self, entry, |users: Vec<User>| {
            let is_new = users.iter().all(|other| other.name != user.name);
            (is_new.then(|| vec![user.clone()]), is_new)
        })
        .await
    }

    /// The user with this name, who logs in or is logged in. Fails if the accounts are not those that contactd stored.
    async fn find_user(&self, name: &str) -> Stored<Option<User>> {
        self.check_accounts().await?;
        Ok(self.list_users().await?.into_iter().find(|user| user.name == name))
    }

    /// All users, in the order of their names.
    async fn list_users(&self) -> Stored<Vec<User>> {
        list(self).await
    }

    /// Changes a user as [`UserChange::decide`] says, with nobody else changing users meanwhile. The entry is stored if
    /// it was done.
    async fn change_user(&self, name: &str, change: &UserChange, entry: Noted<'_>) -> Stored<UserChanged> {
        self::change(self, entry, |users: Vec<User>| {
            let changed = change.decide(&users, name);
            let stored = if let UserChanged::Done(user) = &changed { Some(vec![user.clone()]) } else { None };
            (stored, changed)
        })
        .await
    }

    /// Stores a new admin token; unless another one, ended or not, has a name that [looks like](looks_like) its name: then nothing
    /// is stored, and the newest of those is returned.
    async fn create_admin_token(
        &self,
        hash: &TokenHash,
        token: &AdminToken,
        entry: Noted<'_>,
    ) -> Stored<Option<AdminToken>> {
        change(self, entry, |tokens: Vec<(TokenHash, AdminToken)>| {
            let others = tokens.into_iter().map(|(_, other)| other).filter(|other| other.id != token.id);
            let namesake = others.rev().find(|other| looks_like(&other.name, &token.name));
            (namesake.is_none().then(|| vec![(*hash, token.clone())]), namesake)
        })
        .await
    }

    /// The admin token with this hash, live or not. Fails if the accounts are not those that contactd stored.
    async fn find_admin_token(&self, hash: &TokenHash) -> Stored<Option<AdminToken>> {
        self.check_accounts().await?;
        let tokens: Vec<(TokenHash, AdminToken)> = list(self).await?;
        Ok(tokens.into_iter().find(|(known, _)| known == hash).map(|(_, token)| token))
    }

    /// All admin tokens, oldest first, including expired and revoked ones.
    async fn list_admin_tokens(&self) -> Stored<Vec<AdminToken>> {
        let tokens: Vec<(TokenHash, AdminToken)> = list(self).await?;
        Ok(tokens.into_iter().map(|(_, token)| token).collect())
    }

    /// Revokes an admin token. `None` if there is no such token; revoking it again changes nothing.
    async fn revoke_admin_token(
        &self,
        id: &str,
        at: Timestamp,
        entry: Noted<'_>,
    ) -> Stored<Option<AdminToken>> {
        let revoked = |token: AdminToken| AdminToken { revoked_at: token.revoked_at.or(Some(at)), ..token };
        change_token(self, id, revoked, entry).await
    }

    /// Gives an admin token another owner, or none. `None` if there is no such token.
    async fn give_admin_token(
        &self,
        id: &str,
        owner: Option<&str>,
        entry: Noted<'_>,
    ) -> Stored<Option<AdminToken>> {
        let given = |token: AdminToken| AdminToken { owner: owner.map(str::to_owned), ..token };
        change_token(self, id, given, entry).await
    }

    /// Stores that an admin token was used, unless a later time is stored.
    async fn note_admin_token_use(&self, id: &str, at: Timestamp) -> Stored<()> {
        self.note_use(EntityTable::AdminTokens, id, at).await
    }
}

impl<S: Entities + ?Sized> Accounts for S {}

/// Changes the admin token with this id.
async fn change_token(
    store: &(impl Entities + ?Sized),
    id: &str,
    changed: impl Fn(AdminToken) -> AdminToken + Send + Sync,
    entry: Noted<'_>,
) -> Stored<Option<AdminToken>> {
    change(store, entry, |tokens: Vec<(TokenHash, AdminToken)>| {
        let found = tokens.into_iter().find(|(_, token)| token.id == id);
        let found = found.map(|(hash, token)| (hash, changed(token)));
        (found.clone().map(|found| vec![found]), found.map(|(_, token)| token))
    })
    .await
}

/// The users and the admin tokens in rows of their tables.
pub fn accounts_of(users: &[EntityRow], tokens: &[EntityRow]) -> Stored<(Vec<User>, Vec<AdminToken>)> {
    let tokens = from_rows::<(TokenHash, AdminToken)>(tokens)?;
    Ok((from_rows(users)?, tokens.into_iter().map(|(_, token)| token).collect()))
}
