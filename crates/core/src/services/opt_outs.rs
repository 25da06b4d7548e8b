//! Opt-outs: people, numbers and addresses that are never disclosed.

use std::sync::Arc;

use crate::services::Parts;
use crate::store::{StoreError, Suppressions};
use crate::{Actor, Changed, SubjectName};

/// Suppresses people, numbers and addresses, and takes that back.
pub struct OptOuts<S> {
    parts: Arc<Parts<S>>,
}

/// What became of the subjects that were named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OptedOut {
    /// Suppressions made, or taken back.
    pub changed: u64,
    /// Subjects that were as wanted already.
    pub already: u64,
}

/// Why nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum OptOutError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl<S: Suppressions> OptOuts<S> {
    pub(super) fn new(parts: Arc<Parts<S>>) -> Self {
        Self { parts }
    }

    /// Suppresses all of these. No lookup that starts after this has returned, confirmed, discloses them, whatever
    /// is imported later. Suppressing twice is not an error.
    pub async fn suppress(
        &self,
        actor: &Actor,
        named: &[SubjectName],
    ) -> Result<Changed<OptedOut>, OptOutError> {
        actor.note("suppress");
        let digests: Vec<_> =
            named.iter().filter_map(|name| self.parts.keys.digest(name.subject())).collect();
        let changed = self.parts.store.suppress(&digests, self.parts.clock.now()).await?;
        self.announce(named, changed).await
    }

    /// Takes suppressions back, under whichever key they were made.
    pub async fn unsuppress(
        &self,
        actor: &Actor,
        named: &[SubjectName],
    ) -> Result<Changed<OptedOut>, OptOutError> {
        actor.note("unsuppress");
        let digests: Vec<_> =
            named.iter().flat_map(|name| self.parts.keys.all_digests(name.subject())).collect();
        let changed = self.parts.store.unsuppress(&digests).await?;
        self.announce(named, changed).await
    }

    async fn announce(&self, named: &[SubjectName], changed: u64) -> Result<Changed<OptedOut>, OptOutError> {
        let already = (named.len() as u64).saturating_sub(changed);
        Ok(Changed::announce(OptedOut { changed, already }, &*self.parts.in_force).await)
    }
}
