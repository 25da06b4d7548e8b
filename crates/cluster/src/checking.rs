//! Checking that the database holds what contactd stored: all rows when the node starts and every hour, and their count once in a lease.

use std::time::{Duration, Instant};

use contactd_core::store::copying::ChangePoint;
use contactd_core::store::{Entities, StoreError, Stored};
use contactd_store_postgres::PostgresStore;

use crate::settings::NodeSettings;
use crate::state::Shared;

/// Between two checks of all rows.
const CHECK_EVERY: Duration = Duration::from_secs(3_600);
/// The longest pause between two counts.
const LONGEST_COUNT_PAUSE: Duration = Duration::from_secs(60);
/// The pause until the first change is in force.
const START_PAUSE: Duration = Duration::from_millis(200);

pub(crate) fn run(shared: &Shared) {
    let mut next = Instant::now();
    while !shared.is_stopping() {
        let is_in_force = shared.state().access_is_in_force;
        if is_in_force && let Err(error) = shared.wait_for(check(shared, &mut next)) {
            tracing::debug!(%error, "the database is checked later");
        }
        let pause =
            if is_in_force { shared.settings.lease_length.min(LONGEST_COUNT_PAUSE) } else { START_PAUSE };
        shared.wait(pause, |_| false);
    }
}

async fn check(shared: &Shared, next: &mut Instant) -> Stored<()> {
    let NodeSettings { database, local, .. } = &shared.settings;
    shared.note_risk(database.own_condition().await?.risk());
    if database.keys().is_none() {
        return Ok(());
    }
    let accounts = match database.check_accounts().await {
        Err(StoreError::Tampered(fault)) => Some(fault),
        checked => checked.map(|()| None)?,
    };
    let ((at, there), here) = (database.count_access().await?, local.count_access()?);
    let (is_current, is_known_wrong) = {
        let state = shared.state();
        (at == state.access, state.fault.is_some())
    };
    let is_due = Instant::now() >= *next || is_known_wrong || is_current && there != here;
    if !is_due {
        if accounts.is_some() {
            shared.note_fault(accounts);
        }
        return Ok(());
    }
    *next = Instant::now() + CHECK_EVERY;
    let Some(checked) = database.check_access().await? else { return Ok(()) };
    let fault = match &checked.sealed {
        Err(fault) => Some(PostgresStore::access_fault(fault)),
        Ok((key, sum)) => {
            let own = local.read_access()?;
            if own.at == checked.at && key.sum(own.rows()) != *sum {
                copy_anew(shared);
            }
            None
        }
    };
    shared.note_fault(fault.or(accounts));
    Ok(())
}

/// This copy is not what the database rightly holds.
fn copy_anew(shared: &Shared) {
    tracing::warn!(
        "the tokens and opt-outs of this node are not those that contactd stored: they are copied anew"
    );
    let mut state = shared.state();
    state.end_lease(&shared.settings);
    state.access = ChangePoint::default();
    state.access_is_in_force = false;
    drop(state);
    shared.heartbeat_due.notify_one();
}
