//! Work that waits for a disk, a lock or a processor.

use tokio::runtime::{Handle, RuntimeFlavor};

/// Runs what blocks. On a thread of a runtime that has several, another thread takes over its other tasks meanwhile. A runtime of
/// one thread has that thread for this work alone.
pub fn blocking<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}

/// Waits for a future in the middle of work that blocks. Only in a runtime of several threads, which go on meanwhile.
pub fn wait_for<T>(future: impl Future<Output = T>) -> T {
    blocking(|| Handle::current().block_on(future))
}
