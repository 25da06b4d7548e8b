//! Users and admin tokens.

use contactd_core::store::{Accounts, Noted, StoreError};
use contactd_core::{AdminToken, Timestamp, TokenHash, User, UserChange, UserChanged};

use super::Memory;

impl Accounts for Memory {
    async fn create_user(&self, user: &User, entry: Noted<'_>) -> Result<bool, StoreError> {
        let mut state = self.state()?;
        if state.users.contains_key(&user.name) {
            return Ok(false);
        }
        state.users.insert(user.name.clone(), user.clone());
        state.note(entry, &[]);
        Ok(true)
    }

    async fn find_user(&self, name: &str) -> Result<Option<User>, StoreError> {
        Ok(self.state()?.users.get(name).cloned())
    }

    async fn list_users(&self) -> Result<Vec<User>, StoreError> {
        Ok(self.state()?.users.values().cloned().collect())
    }

    async fn change_user(
        &self,
        name: &str,
        change: &UserChange,
        entry: Noted<'_>,
    ) -> Result<UserChanged, StoreError> {
        let mut state = self.state()?;
        let users: Vec<User> = state.users.values().cloned().collect();
        let changed = change.decide(&users, name);
        if let UserChanged::Done(user) = &changed {
            state.users.insert(user.name.clone(), user.clone());
            state.note(entry, &[]);
        }
        Ok(changed)
    }

    async fn create_admin_token(
        &self,
        hash: &TokenHash,
        token: &AdminToken,
        entry: Noted<'_>,
    ) -> Result<(), StoreError> {
        let mut state = self.state()?;
        state.admin_tokens.push((*hash, token.clone()));
        state.admin_tokens.sort_by_key(|(_, token)| token.created_at);
        state.note(entry, &[]);
        Ok(())
    }

    async fn find_admin_token(&self, hash: &TokenHash) -> Result<Option<AdminToken>, StoreError> {
        let state = self.state()?;
        let found = state.admin_tokens.iter().find(|(known, _)| known == hash);
        Ok(found.map(|(_, token)| token.clone()))
    }

    async fn list_admin_tokens(&self) -> Result<Vec<AdminToken>, StoreError> {
        Ok(self.state()?.admin_tokens.iter().map(|(_, token)| token.clone()).collect())
    }

    async fn revoke_admin_token(
        &self,
        id: &str,
        at: Timestamp,
        entry: Noted<'_>,
    ) -> Result<Option<AdminToken>, StoreError> {
        let mut state = self.state()?;
        let found = state.admin_tokens.iter_mut().map(|(_, token)| token).find(|token| token.id == id);
        let found = found.map(|token| {
            token.revoked_at.get_or_insert(at);
            token.clone()
        });
        state.note(entry.filter(|_| found.is_some()), &[]);
        Ok(found)
    }

    async fn note_admin_token_use(&self, id: &str, at: Timestamp) -> Result<(), StoreError> {
        let mut state = self.state()?;
        for (_, token) in state.admin_tokens.iter_mut().filter(|(_, token)| token.id == id) {
            token.last_used_at = token.last_used_at.max(Some(at));
        }
        Ok(())
    }
}
