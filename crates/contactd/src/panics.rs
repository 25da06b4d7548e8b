//! Panics: where they happened is told, what they say is not, because that may hold personal data.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};

use crate::output;

thread_local! {
    static IS_EXPECTED: Cell<bool> = const { Cell::new(false) };
}

/// To be called first of all.
pub(crate) fn tell_only_where() {
    panic::set_hook(Box::new(|panic| {
        if !IS_EXPECTED.get() {
            let place = panic.location().map(ToString::to_string).unwrap_or_default();
            output::words(format_args!("contactd: a fault of the program at {place}; please report it"));
        }
    }));
}

/// Runs what may panic on bad input; none if it did.
pub(crate) fn expected<T>(run: impl FnOnce() -> T) -> Option<T> {
    let before = IS_EXPECTED.replace(true);
    let done = panic::catch_unwind(AssertUnwindSafe(run));
    IS_EXPECTED.set(before);
    done.ok()
}
