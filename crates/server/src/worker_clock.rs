//! The time as of the worker's last tick.

use std::cell::{Cell, Ref, RefCell};
use std::time::{Duration, UNIX_EPOCH};

use contactd_core::Timestamp;

/// The time as of the worker's last tick. Reading it needs no system call.
pub(crate) struct WorkerClock {
    /// The time since the worker started.
    elapsed: Cell<Duration>,
    second: Cell<i64>,
    /// The end of the head of an answer: the line with the date, and the empty line after it.
    end_of_head: RefCell<String>,
}

impl WorkerClock {
    pub(crate) fn new(now: Timestamp) -> Self {
        let clock =
            Self { elapsed: Cell::default(), second: Cell::new(i64::MIN), end_of_head: RefCell::default() };
        clock.set(Duration::ZERO, now);
        clock
    }

    /// The time since the worker started.
    pub(crate) fn elapsed(&self) -> Duration {
        self.elapsed.get()
    }

    /// The end of the head of an answer, after the line before it: the line with the date, and the empty line after it.
    pub(crate) fn end_of_head(&self) -> Ref<'_, str> {
        Ref::map(self.end_of_head.borrow(), String::as_str)
    }

    pub(crate) fn set(&self, elapsed: Duration, now: Timestamp) {
        self.elapsed.set(elapsed);
        if self.second.replace(now.seconds()) != now.seconds() {
            let since_1970 = Duration::from_secs(u64::try_from(now.seconds()).unwrap_or(0));
            let date = httpdate::fmt_http_date(UNIX_EPOCH + since_1970);
            self.end_of_head.replace(format!("\r\ndate: {date}\r\n\r\n"));
        }
    }
}
