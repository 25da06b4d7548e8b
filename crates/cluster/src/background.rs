//! Work that must not delay lookups.

use std::thread;

use contactd_core::store::{StoreError, Stored};
use contactd_core::work_in_background;

/// Does something on a thread that runs only when its core has nothing else to do, and waits for it. There is no way back for
/// such a thread without privileges, so it is a new one. It must hold no lock that other threads wait for: it may not run for
/// long.
pub(crate) fn in_background<T: Send>(work: impl FnOnce() -> Stored<T> + Send) -> Stored<T> {
    thread::scope(|scope| {
        let working = scope.spawn(|| {
            work_in_background();
            work()
        });
        working.join().unwrap_or_else(|_| Err(StoreError::Engine("a background thread panicked".to_owned())))
    })
}
