//! What a running service keeps in memory: the tokens and suppressions in force.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::store::{LocalRead, StoreError, Suppressions, Tokens, Usage};
use crate::{Affected, Announcing, InForce, NotConfirmed};
use crate::{Callers, Clock, HitsBefore, SuppressionList, UNCOUNTED, UnknownKey, UsageDelta};

/// Keeps callers and suppressions in sync with the store, and writes usage to it. Inside a server it is the
/// direct way to put a change in force.
pub struct AccessTables<S> {
    store: Arc<S>,
    callers: Arc<Callers>,
    suppressions: Arc<SuppressionList>,
    clock: Arc<dyn Clock>,
    /// Held while usage goes from the callers to the store, and while a refresh adds up what is in both: what is on its way is in neither.
    moving_usage: tokio::sync::Mutex<()>,
    /// How many refreshes have begun.
    begun: AtomicU64,
    /// The newest refresh that was applied to each list. Several may run at once, and one that began earlier must
    /// not replace what a later one read.
    applied: Mutex<Applied>,
}

#[derive(Default)]
struct Applied {
    suppressions: u64,
    tokens: u64,
}

/// Why a change could not be applied.
#[derive(Debug, thiserror::Error)]
pub enum RefreshError {
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A suppression could not be recognised.
    #[error(transparent)]
    Key(#[from] UnknownKey),
}

impl<S: LocalRead + Tokens + Suppressions + Usage> AccessTables<S> {
    /// Creates it. Nothing is read yet.
    pub fn new(
        store: Arc<S>,
        callers: Arc<Callers>,
        suppressions: Arc<SuppressionList>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let (moving_usage, begun, applied) = Default::default();
        Self { store, callers, suppressions, clock, moving_usage, begun, applied }
    }

    /// When this returns, every lookup that starts afterwards sees what was committed before the call.
    pub async fn refresh(&self) -> Result<(), RefreshError> {
        let number = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        // Neither depends on the other: a revocation takes effect even if a digest key is missing.
        let suppressions = self.refresh_suppressions(number).await;
        let tokens = self.refresh_tokens(number).await;
        self.store.renew_all();
        suppressions.and(tokens)
    }

    async fn refresh_suppressions(&self, number: u64) -> Result<(), RefreshError> {
        // Building the list takes longer than putting it in force, and nobody has to wait for it.
        let listed = self.suppressions.listed(self.store.list_suppressions().await?)?;
        let mut applied = self.applied.lock();
        if applied.suppressions < number {
            self.suppressions.put_in_force(listed);
            applied.suppressions = number;
        }
        Ok(())
    }

    async fn refresh_tokens(&self, number: u64) -> Result<(), RefreshError> {
        let now = self.clock.now();
        let _alone = self.moving_usage.lock().await;
        // A token whose quota was changed begins with the counts in the store, so write them first.
        self.store_usage().await?;
        let mut tokens = Vec::new();
        // Asked first: what is read afterwards is then all that was used. A node has no units before that is known.
        let is_counted =
            self.callers.leases().is_some() || self.callers.hits_before() != HitsBefore::Uncounted;
        for (hash, token) in self.store.list_tokens().await? {
            let used = match self.callers.quota_of(&token) {
                _ if !is_counted => UNCOUNTED,
                Some(quota) => self.store.hits_since(&token.family, quota.period.days(now).0).await?,
                None => 0,
            };
            tokens.push((hash, token, used));
        }
        let mut applied = self.applied.lock();
        if applied.tokens < number {
            self.callers.replace(tokens, now);
            applied.tokens = number;
        }
        Ok(())
    }

    /// Writes the usage since the last call to the store.
    pub async fn flush_usage(&self) -> Result<(), StoreError> {
        let _alone = self.moving_usage.lock().await;
        self.store_usage().await
    }

    async fn store_usage(&self) -> Result<(), StoreError> {
        let mut taken = TakenUsage { callers: &self.callers, usage: self.callers.take_usage() };
        if taken.usage.is_empty() {
            return Ok(());
        }
        self.store.record_usage(&taken.usage, self.clock.now()).await?;
        taken.usage.clear();
        Ok(())
    }
}

/// Usage that is not stored yet. If it is dropped, because that failed or whoever asked for it has gone, it goes back.
struct TakenUsage<'a> {
    callers: &'a Callers,
    usage: Vec<UsageDelta>,
}

impl Drop for TakenUsage<'_> {
    fn drop(&mut self) {
        self.callers.return_usage(&self.usage);
    }
}

impl<S: LocalRead + Tokens + Suppressions + Usage> InForce for AccessTables<S> {
    fn announce(&self, affected: Affected) -> Announcing<'_> {
        Box::pin(async move {
            match affected {
                Affected::Access => {
                    self.refresh().await.map(|()| Vec::new()).map_err(|_| NotConfirmed::Failed)
                }
                Affected::Details => {
                    self.store.renew_all();
                    Ok(Vec::new())
                }
            }
        })
    }
}
