//! What the tests of this crate share.

use std::future::Future;

/// What is ready already: this engine never waits.
pub(crate) fn now<T>(ready: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(ready)
}
