//! The lookups of one token, day by day.

use super::token_names;
use crate::Actor;
use crate::services::{AuditError, Audits};
use crate::store::{AuditIndex, Facts, JournalCopies, Tokens};

/// How many lookups a token made on a UTC day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are the words of the glossary")]
pub struct TokenDay {
    pub day: i64,
    pub hits: u64,
    pub misses: u64,
    pub refused: u64,
}

impl<S: AuditIndex + JournalCopies + Facts + Tokens> Audits<S> {
    /// The lookups of a token, by id, on each of this many days up to today, oldest first. Days without any are there too.
    pub async fn days_of_token(
        &self,
        actor: &Actor,
        id: &str,
        days: u16,
    ) -> Result<Vec<TokenDay>, AuditError> {
        if !token_names(&*self.parts.store).await?.contains_key(id) {
            return Err(AuditError::UnknownToken(id.to_owned()));
        }
        let (usage, _) = self.usage(actor, None).await?;
        let today = self.parts.clock.now().day();
        let first = today + 1 - i64::from(days);
        let mut listed: Vec<TokenDay> =
            (first..=today).map(|day| TokenDay { day, ..TokenDay::default() }).collect();
        for usage in usage.into_iter().map(|named| named.usage).filter(|usage| usage.token == id) {
            let at = usize::try_from(usage.day - first).ok();
            if let Some(day) = at.and_then(|at| listed.get_mut(at)) {
                day.hits += usage.hits;
                day.misses += usage.misses;
                day.refused += usage.refused;
            }
        }
        Ok(listed)
    }
}
