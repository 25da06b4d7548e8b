//! Facts, change detection, maintenance.

use std::path::Path;

use contactd_core::Timestamp;
use contactd_core::store::{
    ChangeNumbers, Changes, Facts, Maintenance, Noted, PartSize, StoreError, TakenOver, Withdrawals,
};

use super::Memory;

impl Facts for Memory {
    async fn fact(&self, name: &str) -> Result<Option<String>, StoreError> {
        Ok(self.state()?.facts.get(name).cloned())
    }

    async fn remember(&self, name: &str, value: &str) -> Result<String, StoreError> {
        Ok(self.state()?.facts.entry(name.to_owned()).or_insert_with(|| value.to_owned()).clone())
    }

    async fn replace_fact(&self, name: &str, value: &str, entry: Noted<'_>) -> Result<(), StoreError> {
        let mut state = self.state()?;
        state.facts.insert(name.to_owned(), value.to_owned());
        state.note(entry, &[]);
        Ok(())
    }

    async fn forget(&self, name: &str) -> Result<(), StoreError> {
        self.state()?.facts.remove(name);
        Ok(())
    }
}

impl Changes for Memory {
    async fn changes(&self) -> Result<ChangeNumbers, StoreError> {
        let state = self.state()?;
        Ok(ChangeNumbers { access: state.access_changes, details: state.detail_changes })
    }
}

impl Maintenance for Memory {
    async fn tidy(&self) -> Result<(), StoreError> {
        self.state().map(|_| ())
    }

    async fn flush_removed(&self) -> Result<bool, StoreError> {
        self.state().map(|_| true)
    }

    async fn wipe_removed(&self) -> Result<(), StoreError> {
        self.writing().map(|_| ())
    }

    async fn check(&self) -> Result<Vec<String>, StoreError> {
        self.state().map(|_| Vec::new())
    }

    async fn sizes(&self) -> Result<Vec<PartSize>, StoreError> {
        let bytes =
            self.state()?.people.values().flatten().map(|kept| kept.detail.value.expose().len() as u64).sum();
        Ok(vec![PartSize { name: "memory".to_owned(), bytes }])
    }

    async fn copy_to(&self, dir: &Path) -> Result<Vec<String>, StoreError> {
        let people = self.state()?.people.keys().cloned().collect::<Vec<_>>().join("\n");
        std::fs::write(dir.join("memory"), people).map_err(|error| StoreError::Engine(error.to_string()))?;
        Ok(vec!["memory".to_owned()])
    }

    async fn take_over(&self, withdrawals: &Withdrawals, at: Timestamp) -> Result<TakenOver, StoreError> {
        let mut state = self.state()?;
        state.access_changes += 1;
        let mut taken = TakenOver::default();
        for (digest, since) in &withdrawals.suppressions {
            if !state.suppressions.iter().any(|(known, _)| known == digest) {
                state.suppressions.push((digest.clone(), *since));
                taken.suppressions += 1;
            }
        }
        for (hash, token) in &withdrawals.tokens {
            match state.tokens.iter_mut().map(|(_, known)| known).find(|known| known.id == token.id) {
                Some(known) if known.revoked_at.is_none() && token.revoked_at.is_some() => {
                    known.revoked_at = token.revoked_at;
                    taken.revocations += 1;
                }
                Some(known) if known.revoked_at.is_none() => {
                    let before = known.clone();
                    let ends = [before.expires_at, token.expires_at];
                    known.expires_at = ends.into_iter().flatten().min();
                    known.scopes = known.scopes.and(token.scopes);
                    let counted =
                        if token.is_live(at) { &mut taken.restrictions } else { &mut taken.revocations };
                    *counted += u64::from(*known != before);
                }
                Some(_) => {}
                None => {
                    let revoked_at = Some(at);
                    state.tokens.push((*hash, contactd_core::Token { revoked_at, ..token.clone() }));
                }
            }
        }
        for (name, at) in &withdrawals.disabled_users {
            if let Some(user) = state.users.get_mut(name).filter(|user| user.is_enabled()) {
                user.disabled_at = Some(*at);
                taken.accounts += 1;
            }
        }
        for (id, at) in &withdrawals.revoked_admin_tokens {
            let mut tokens = state.admin_tokens.iter_mut().map(|(_, token)| token);
            if let Some(token) = tokens.find(|token| token.id == *id && token.revoked_at.is_none()) {
                token.revoked_at = Some(*at);
                taken.accounts += 1;
            }
        }
        Ok(taken)
    }
}
