//! Tokens, suppressions and usage.

use contactd_core::store::{DayHits, Noted, StoreError, StoreFuture, Suppressions, Tokens, Usage};
use contactd_core::{SubjectDigest, Timestamp, Token, TokenHash, TokenUpdate, UpdatedToken, UsageDelta};

use super::Memory;

impl Tokens for Memory {
    async fn create_token(
        &self,
        hash: &TokenHash,
        token: &Token,
        entry: Noted<'_>,
    ) -> Result<(), StoreError> {
        let mut state = self.state()?;
        state.note(entry, &[]);
        state.tokens.push((*hash, token.clone()));
        state.access_changes += 1;
        Ok(())
    }

    async fn list_tokens(&self) -> Result<Vec<(TokenHash, Token)>, StoreError> {
        let state = self.state()?;
        let mut tokens = state.tokens.clone();
        for (_, token) in &mut tokens {
            token.hits = state.usage.iter().filter(|(id, ..)| *id == token.id).map(|(.., hits)| hits).sum();
        }
        tokens.sort_by_key(|(_, token)| token.created_at);
        Ok(tokens)
    }

    async fn revoke_token(
        &self,
        id: &str,
        at: Timestamp,
        entry: Noted<'_>,
    ) -> Result<Option<Token>, StoreError> {
        let mut state = self.state()?;
        state.access_changes += 1;
        let token = state.tokens.iter_mut().map(|(_, token)| token).find(|token| token.id == id);
        let token = token.map(|token| {
            token.revoked_at.get_or_insert(at);
            token.clone()
        });
        state.note(entry.filter(|_| token.is_some()), &[]);
        Ok(token)
    }

    async fn rotate_token(
        &self,
        old: &str,
        old_ends_at: Timestamp,
        hash: &TokenHash,
        token: &Token,
        entry: Noted<'_>,
    ) -> Result<bool, StoreError> {
        let mut state = self.state()?;
        let found = state.tokens.iter_mut().map(|(_, token)| token).find(|token| token.id == old);
        let Some(old) = found.filter(|token| token.revoked_at.is_none()) else { return Ok(false) };
        old.expires_at = Some(old.expires_at.map_or(old_ends_at, |end| end.min(old_ends_at)));
        state.tokens.push((*hash, token.clone()));
        state.access_changes += 1;
        state.note(entry, &[]);
        Ok(true)
    }

    async fn update_token(
        &self,
        id: &str,
        update: &TokenUpdate,
        at: Timestamp,
        entry: Noted<'_>,
    ) -> Result<Option<UpdatedToken>, StoreError> {
        let listed = self.list_tokens().await?.into_iter().map(|(_, token)| token);
        let Some(before) = listed.into_iter().find(|token| token.id == id && token.is_live(at)) else {
            return Ok(None);
        };
        let after = update.apply(&before, at);
        let mut state = self.state()?;
        let mut sharing = Vec::new();
        for (_, token) in &mut state.tokens {
            if token.id == id {
                *token = after.clone();
            } else if let Some(quota) = update.quota
                && token.family == before.family
                && token.is_live(at)
            {
                token.quota = quota.0;
                sharing.push(token.id.clone());
            }
        }
        state.access_changes += 1;
        state.note(entry, &[]);
        Ok(Some(UpdatedToken { before, after, sharing }))
    }
}

impl Suppressions for Memory {
    async fn suppress(
        &self,
        subjects: &[SubjectDigest],
        at: Timestamp,
        entry: Noted<'_>,
    ) -> Result<u64, StoreError> {
        let mut state = self.state()?;
        state.access_changes += 1;
        let before = state.suppressions.len();
        for subject in subjects {
            if !state.suppressions.iter().any(|(known, _)| known == subject) {
                state.suppressions.push((subject.clone(), at));
            }
        }
        let changed = (state.suppressions.len() - before) as u64;
        state.note(entry, &[("subjects", subjects.len() as u64), ("changed", changed)]);
        Ok(changed)
    }

    async fn unsuppress(&self, subjects: &[SubjectDigest], entry: Noted<'_>) -> Result<u64, StoreError> {
        let mut state = self.state()?;
        state.access_changes += 1;
        let before = state.suppressions.len();
        state.suppressions.retain(|(known, _)| !subjects.contains(known));
        let changed = (before - state.suppressions.len()) as u64;
        state.note(entry, &[("subjects", subjects.len() as u64), ("changed", changed)]);
        Ok(changed)
    }

    async fn find_suppression(&self, subjects: &[SubjectDigest]) -> Result<Option<Timestamp>, StoreError> {
        let state = self.state()?;
        let found = state.suppressions.iter().filter(|(known, _)| subjects.contains(known));
        Ok(found.map(|(_, since)| *since).min())
    }

    async fn list_suppressions(&self) -> Result<Vec<SubjectDigest>, StoreError> {
        Ok(self.state()?.suppressions.iter().map(|(digest, _)| digest.clone()).collect())
    }
}

impl Usage for Memory {
    async fn record_usage(&self, usage: &[UsageDelta], at: Timestamp) -> Result<(), StoreError> {
        let mut state = self.state()?;
        for delta in usage {
            state.usage.push((delta.token.clone(), at.day(), delta.hits));
            for (_, token) in state.tokens.iter_mut().filter(|(_, token)| token.id == delta.token) {
                token.last_used_at = token.last_used_at.max(delta.last_used_at);
            }
        }
        Ok(())
    }

    fn hits_since(&self, family: &str, day: i64) -> impl StoreFuture<u64> {
        let hits = self.state().map(|state| {
            let belongs =
                |id: &str| state.tokens.iter().any(|(_, token)| token.id == id && token.family == family);
            let counts = state.usage.iter().filter(|(id, on, _)| *on >= day && belongs(id));
            counts.map(|(.., hits)| hits).sum()
        });
        std::future::ready(hits)
    }

    async fn hits_by_day(&self, since: i64) -> Result<Vec<DayHits>, StoreError> {
        let mut hits: Vec<DayHits> = Vec::new();
        for (token, day, more) in self.state()?.usage.iter().filter(|(_, day, _)| *day >= since) {
            match hits.iter_mut().find(|known| known.token == *token && known.day == *day) {
                Some(known) => known.hits += more,
                None => hits.push(DayHits { token: token.clone(), day: *day, hits: *more }),
            }
        }
        Ok(hits)
    }

    async fn raise_hits(&self, hits: &[DayHits]) -> Result<(), StoreError> {
        for wanted in hits {
            let held = self.hits_by_day(wanted.day).await?;
            let held = held.iter().find(|held| held.token == wanted.token && held.day == wanted.day);
            let missing = wanted.hits.saturating_sub(held.map_or(0, |held| held.hits));
            self.state()?.usage.push((wanted.token.clone(), wanted.day, missing));
        }
        Ok(())
    }
}
