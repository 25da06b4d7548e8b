//! Lookups: the only way to a detail.

use std::sync::Arc;

use crate::store::{Details, StoreError, Totals};
use crate::{Caller, ContactValue, Kind, LimitExceeded, Profile, Subject, SuppressionList, Timestamp};

/// Answers lookups. Handlers hold this, never a store, so that no detail can be read
/// without a [`Caller`].
pub struct Lookups<D> {
    details: Arc<D>,
    suppressions: Arc<SuppressionList>,
}

/// Why a lookup disclosed nothing.
#[derive(Debug, thiserror::Error)]
pub enum LookupError {
    /// Unknown, without such a detail, expired, suppressed or erased: nobody can tell which.
    #[error("no such detail")]
    NotFound,
    /// The hit would have been one too many.
    #[error(transparent)]
    Limit(#[from] LimitExceeded),
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl<D: Details> Lookups<D> {
    /// Lookups in `details`, leaving out what is suppressed.
    pub fn new(details: Arc<D>, suppressions: Arc<SuppressionList>) -> Self {
        Self { details, suppressions }
    }

    /// The best personal detail of that kind that has not expired at `now`.
    ///
    /// A person who is suppressed costs the same digests and the same read as one who is
    /// unknown: the result of the first check is only used after the read.
    pub async fn find(
        &self,
        caller: &Caller,
        profile: &Profile,
        kind: Kind,
        now: Timestamp,
    ) -> Result<ContactValue, LookupError> {
        let person_is_out = self.suppressions.contains(Subject::Profile(profile));
        let found = self
            .details
            .best_personal(profile, kind, now, |value| !self.suppressions.contains_value(kind, value))
            .await?;
        if found.is_none() {
            // The digest that a value would have cost.
            std::hint::black_box(self.suppressions.contains_value(kind, profile.key()));
        }
        match found.filter(|_| !person_is_out) {
            Some(value) => {
                caller.charge_hit(now)?;
                Ok(value)
            }
            None => {
                caller.count_miss();
                Err(LookupError::NotFound)
            }
        }
    }

    /// How much there is to look up.
    pub async fn totals(&self) -> Result<Totals, StoreError> {
        self.details.totals().await
    }

    /// Lets go of what this thread keeps between lookups; called on it every 100 ms.
    pub fn renew(&self) {
        self.details.renew();
    }
}
