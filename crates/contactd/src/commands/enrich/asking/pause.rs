//! What the service asks all threads of a run for: to wait.

use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::in_words;
use crate::output;

const WORTH_TELLING: Duration = Duration::from_secs(5);

/// A time before which no thread sends anything, and whether the run is over.
#[derive(Default)]
pub(super) struct Pause {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    until: Option<Instant>,
    is_over: bool,
}

impl Pause {
    /// Waits until something may be sent. `false` if nothing more is to be sent.
    pub(super) fn wait(&self) -> bool {
        let mut state = self.state.lock();
        while let Some(until) = state.until.filter(|until| !state.is_over && *until > Instant::now()) {
            self.changed.wait_until(&mut state, until);
        }
        !state.is_over
    }

    /// Lets all threads wait for this long from now.
    pub(super) fn until_after(&self, time: Duration) {
        let mut state = self.state.lock();
        let wanted = Instant::now() + time;
        if time > WORTH_TELLING && state.until.is_none_or(|until| until < Instant::now()) {
            output::words(format_args!("the service asks to retry in {}; waiting", in_words(time)));
        }
        state.until = state.until.max(Some(wanted));
    }

    /// Ends the run: whoever waits goes on at once.
    pub(super) fn end(&self) {
        self.state.lock().is_over = true;
        self.changed.notify_all();
    }
}
