//! Waiting for other writers.

use contactd_core::store::StoreError;
use contactd_core::{Cancel, Observer, Progress};

/// Retries until no other writer is active, however long that takes, and reports every attempt that was busy. An
/// engine waits a while before it returns `Busy`, so this does not spin. Gives up when it is cancelled.
pub(super) async fn until_free<T>(
    observer: Observer<'_>,
    cancel: &Cancel,
    mut attempt: impl AsyncFnMut() -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    loop {
        match attempt().await {
            Err(StoreError::Busy) if !cancel.is_cancelled() => observer(Progress::Waiting),
            done => return done,
        }
    }
}
