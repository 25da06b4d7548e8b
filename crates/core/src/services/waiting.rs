//! Waiting for whoever writes details.

use crate::progress::{Cancel, Observer, Progress};
use crate::store::StoreError;

/// Tries until nobody else is writing, however long that takes, and reports every try that has to wait. An engine
/// waits for a while itself before it is busy, so this does not spin. Gives up when it is cancelled.
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
