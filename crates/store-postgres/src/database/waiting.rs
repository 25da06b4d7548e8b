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
        Err(if is_unknown { unknown(&failure) } else { failure.into_store_error() })
    }

    /// The same for something that has changed nothing.
    pub(super) async fn after_discarding(&mut self, failure: Failure) -> Stored<()> {
        if self.tries_again(&failure, false).await { Ok(()) } else { Err(failure.into_discarded()) }
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

/// The error of something that may have been done.
pub(super) fn unknown(failure: &Failure) -> StoreError {
    StoreError::OutcomeUnknown(format!("PostgreSQL: {}", failure.what()))
}
