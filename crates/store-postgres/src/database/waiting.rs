//! Waiting between two attempts.

use std::time::{Duration, Instant};

use contactd_core::store::{StoreError, Stored};

use crate::database::Database;
use crate::failure::Failure;

/// The pause between two attempts.
const RETRY_PAUSE: Duration = Duration::from_millis(250);

/// Waits between attempts, until patience ends. It begins with the first failure, because work may take long; with that of an
/// earlier step, if the server has not answered since.
pub(super) struct Waiting<'a> {
    database: &'a Database,
    until: Option<Instant>,
    /// Whether a lock that another transaction holds is waited for too.
    pub(super) waits_for_locks: bool,
}

impl<'a> Waiting<'a> {
    pub(super) const fn new(database: &'a Database) -> Self {
        Self { database, until: None, waits_for_locks: false }
    }

    /// Returns when it is time for another attempt; an error if there is none.
    pub(super) async fn after(&mut self, failure: Failure, is_unknown: bool) -> Stored<()> {
        if self.tries_again(&failure, is_unknown).await {
            return Ok(());
        }
        Err(self.database.explained(failure, is_unknown).await)
    }

    /// The same for something that has changed nothing.
    pub(super) async fn after_discarding(&mut self, failure: Failure) -> Stored<()> {
        if self.tries_again(&failure, false).await {
            return Ok(());
        }
        match self.database.obstacle(&failure).await {
            Some(obstacle) => {
                Err(StoreError::Unavailable(format!("PostgreSQL: {obstacle}. Nothing was changed")))
            }
            None => Err(failure.into_discarded()),
        }
    }

    async fn tries_again(&mut self, failure: &Failure, is_unknown: bool) -> bool {
        // The lock may be held by the attempt whose end is not known.
        let waits_for_lock = (is_unknown || self.waits_for_locks) && failure.is_busy();
        let is_passing = failure.is_passing() || waits_for_lock;
        let until = *self.until.get_or_insert_with(|| {
            if !failure.is_passing() {
                return Instant::now() + self.database.patience;
            }
            let since = *self.database.away_since.lock().get_or_insert_with(|| {
                (self.database.on_wait)();
                Instant::now()
            });
            since + self.database.patience
        });
        if !is_passing || Instant::now() + RETRY_PAUSE > until {
            return false;
        }
        self.database.sleep(RETRY_PAUSE).await;
        true
    }
}

impl Database {
    /// The error of what is not tried again, with what is behind it; `is_unknown` is whether it may have been done.
    pub(crate) async fn explained(&self, failure: Failure, is_unknown: bool) -> StoreError {
        let obstacle = self.obstacle(&failure).await;
        let what = format!("PostgreSQL: {}", obstacle.as_ref().unwrap_or(&failure.what()));
        match obstacle {
            _ if is_unknown => StoreError::OutcomeUnknown(what),
            Some(_) => StoreError::Unavailable(what),
            None => failure.into_store_error(),
        }
    }
}
