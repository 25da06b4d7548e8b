//! Panic reports: the location is reported, the message is not, because it may contain personal data.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};

thread_local! {
    static IS_EXPECTED: Cell<bool> = const { Cell::new(false) };
}

/// Installs the panic hook of the process. `report` gets the source location and nothing else.
pub fn report_only_where(report: impl Fn(&str) + Send + Sync + 'static) {
    panic::set_hook(Box::new(move |panic| {
        if !IS_EXPECTED.get() {
            report(&panic.location().map(ToString::to_string).unwrap_or_default());
        }
    }));
}

/// Runs code that may panic on bad input, without reporting it. Returns `None` if it panicked.
pub fn expected<T>(run: impl FnOnce() -> T) -> Option<T> {
    let before = IS_EXPECTED.replace(true);
    let done = panic::catch_unwind(AssertUnwindSafe(run));
    IS_EXPECTED.set(before);
    done.ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[test]
    fn a_panic_is_reported_by_its_place_and_an_expected_one_not_at_all() {
        let reported = Arc::new(Mutex::new(Vec::new()));
        let before = panic::take_hook();
        let reports = Arc::clone(&reported);
        report_only_where(move |place| reports.lock().expect("a lock").push(place.to_owned()));
        let panicked = panic::catch_unwind(|| panic!("no such number: {}", "+14155550123"));
        assert!(panicked.is_err());
        assert!(expected(|| panic!("of no interest")).is_none());
        assert_eq!(expected(|| 7), Some(7));
        panic::set_hook(before);
        // Other tests in this process may panic on purpose at the same time.
        let reported = reported.lock().expect("a lock");
        assert_eq!(reported.iter().filter(|place| place.contains("panics.rs")).count(), 1, "{reported:?}");
        assert!(!reported.iter().any(|place| place.contains("4155550123")));
    }
}
