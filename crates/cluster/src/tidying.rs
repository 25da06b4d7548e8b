//! Removing from the database what no node needs any more.

use std::time::Duration;

use contactd_core::store::Maintenance;

use crate::state::Shared;

/// Between two removals.
const TIDY_EVERY: Duration = Duration::from_secs(60);

pub(crate) fn run(shared: &Shared) {
    loop {
        shared.wait(TIDY_EVERY, |_| false);
        if shared.is_stopping() {
            return;
        }
        let tidied = shared.wait_for(shared.settings.database.tidy());
        if let Err(error) = tidied {
            tracing::debug!(%error, "the database is tidied later");
        }
    }
}
