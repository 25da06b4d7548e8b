//! Wiping the traces of removed details from the files.

use std::time::{Duration, Instant};

use contactd_core::store::{Maintenance, StoreError, Stored};

use crate::background::in_background;
use crate::settings::NodeSettings;
use crate::state::{Following, Shared, State};

/// The longest wait for work. Another thread wakes this one.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// The pause after a failure.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Why the write-ahead log cannot be emptied.
const READER: &str = "a program on this machine reads details.db for long, so removed details stay in its write-ahead log: end that program \
    (fuser -v details.db names it)";

/// Wiping reads the whole file. So while lookups are answered, it rests ten times as long as it took, but not longer than this:
/// an erasure waits for it.
const REST_FACTOR: u32 = 10;
const LONGEST_REST: Duration = Duration::from_secs(120);

pub(crate) fn run(shared: &Shared) {
    while !shared.is_stopping() {
        shared.wait(LONGEST_WAIT, State::wiping_is_due);
        if shared.is_stopping() || !shared.state().wiping_is_due() {
            continue;
        }
        let began = Instant::now();
        let wiped = wipe(shared);
        let rest = (began.elapsed() * REST_FACTOR).min(LONGEST_REST);
        let pause = match wiped {
            Ok(()) if shared.settings.lease.holds() => rest,
            Ok(()) => Duration::ZERO,
            // A large change is being applied.
            Err(StoreError::Busy) => rest.max(RETRY_PAUSE),
            Err(error) => {
                shared.note_trouble(Following::Wiping, &error);
                rest.max(RETRY_PAUSE)
            }
        };
        shared.wait(pause, |_| false);
    }
}

/// Overwrites what was removed up to the newest change in the copy.
fn wipe(shared: &Shared) -> Stored<()> {
    let NodeSettings { local, runtime, .. } = &shared.settings;
    let _wiping = shared.wiping();
    let (epoch, number) = {
        let state = shared.state();
        (state.epoch, state.details_number())
    };
    in_background(|| runtime.block_on(local.wipe_removed()))?;
    while !runtime.block_on(local.flush_removed())? {
        shared.note_trouble(Following::Wiping, &READER);
        shared.wait(RETRY_PAUSE, |_| false);
        if shared.is_stopping() || shared.state().epoch != epoch {
            return Ok(());
        }
    }
    local.note_wiped(number)?;
    let mut state = shared.state();
    if state.epoch == epoch {
        state.wiped = state.wiped.max(number);
    }
    drop(state);
    shared.note_no_trouble(Following::Wiping);
    shared.heartbeat_due.notify_one();
    Ok(())
}
