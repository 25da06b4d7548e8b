//! The time as of the worker's last tick.

use std::cell::{Cell, Ref, RefCell};
use std::time::{Duration, UNIX_EPOCH};

use contactd_core::Timestamp;

/// The time as of the worker's last tick: reading it costs nothing.
pub(crate) struct WorkerClock {
    /// Since the worker began.
    elapsed: Cell<Duration>,
    second: Cell<i64>,
    /// As the Date header has it.
    date: RefCell<String>,
}

impl WorkerClock {
    pub(crate) fn new(now: Timestamp) -> Self {
        let clock = Self { elapsed: Cell::default(), second: Cell::new(i64::MIN), date: RefCell::default() };
        clock.set(Duration::ZERO, now);
        clock
    }

    /// Since the worker began.
    pub(crate) fn elapsed(&self) -> Duration {
        self.elapsed.get()
    }

    /// The date, as an answer has it.
    pub(crate) fn date(&self) -> Ref<'_, str> {
        Ref::map(self.date.borrow(), String::as_str)
    }

    pub(crate) fn set(&self, elapsed: Duration, now: Timestamp) {
        self.elapsed.set(elapsed);
        if self.second.replace(now.seconds()) != now.seconds() {
            let since_1970 = Duration::from_secs(u64::try_from(now.seconds()).unwrap_or(0));
            self.date.replace(httpdate::fmt_http_date(UNIX_EPOCH + since_1970));
        }
    }
}
