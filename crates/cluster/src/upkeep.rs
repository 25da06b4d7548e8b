//! Removing from the database what no node needs any more.

use std::time::Duration;

use contactd_core::store::Maintenance;
use tokio::runtime::Builder;

use crate::state::Shared;

/// Between two removals.
const EVERY: Duration = Duration::from_secs(60);

pub(crate) fn run(shared: &Shared) -> std::io::Result<()> {
    let runtime = Builder::new_current_thread().build()?;
    loop {
        shared.wait(EVERY, |_| false);
        if shared.is_stopping() {
            return Ok(());
        }
        let tidied = runtime.block_on(shared.unless_stopped(shared.settings.database.tidy()));
        if let Err(error) = tidied {
            tracing::debug!(%error, "the database is tidied later");
        }
    }
}
