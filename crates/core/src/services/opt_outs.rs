//! Opt-outs: people, numbers and addresses that are never disclosed.

use std::sync::Arc;

use crate::services::Parts;
use crate::store::{StoreError, Suppressions};
use crate::{Actor, Affected, Changed, SubjectName};

/// Adds and removes suppressions of people, numbers and addresses.
pub struct OptOuts<S> {
    parts: Arc<Parts<S>>,
}

/// What was done with the named subjects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OptedOut {
    /// Suppressions that were added or removed.
    pub changed: u64,
    /// Subjects that were already in the requested state.
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

    /// Suppresses all of these. Once this has returned and is confirmed, no lookup that starts afterwards
    /// discloses them, whatever is imported later. Suppressing twice is not an error.
    pub async fn suppress(
        &self,
        actor: &Actor,
        named: &[SubjectName],
    ) -> Result<Changed<OptedOut>, OptOutError> {
        let entry = self.parts.entry(actor, "suppress");
        let entry = self.parts.about(entry, named.iter().map(SubjectName::subject));
        let digests: Vec<_> =
            named.iter().filter_map(|name| self.parts.keys.digest(name.subject())).collect();
        let changed = self.parts.store.suppress(&digests, self.parts.clock.now(), Some(&entry)).await?;
        self.announce(named, changed).await
    }

    /// Removes suppressions, whichever key they were made with.
    pub async fn unsuppress(
        &self,
        actor: &Actor,
        named: &[SubjectName],
    ) -> Result<Changed<OptedOut>, OptOutError> {
        let entry = self.parts.entry(actor, "unsuppress");
        let entry = self.parts.about(entry, named.iter().map(SubjectName::subject));
        let digests: Vec<_> =
            named.iter().flat_map(|name| self.parts.keys.all_digests(name.subject())).collect();
        let changed = self.parts.store.unsuppress(&digests, Some(&entry)).await?;
        self.announce(named, changed).await
    }

    async fn announce(&self, named: &[SubjectName], changed: u64) -> Result<Changed<OptedOut>, OptOutError> {
        let already = (named.len() as u64).saturating_sub(changed);
        Ok(self.parts.announce(OptedOut { changed, already }, Affected::Access).await)
    }
}
