//! Work that waits for a disk, a lock or a processor.

use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use parking_lot::{Condvar, Mutex};
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
    blocking(|| {
        // The runtime has one bell for each thread: with that, this would hear what is meant for a future that is joined with the one in
        // which it waits, and that one would never hear it.
        let bell = Arc::<Bell>::default();
        let waker = Waker::from(Arc::clone(&bell));
        let (mut context, mut future) = (Context::from_waker(&waker), std::pin::pin!(future));
        loop {
            match future.as_mut().poll(&mut context) {
                Poll::Ready(done) => return done,
                Poll::Pending => bell.wait(),
            }
        }
    })
}

/// Rings when a future can go on.
#[derive(Default)]
struct Bell {
    has_rung: Mutex<bool>,
    rings: Condvar,
}

impl Bell {
    fn wait(&self) {
        let mut has_rung = self.has_rung.lock();
        while !std::mem::take(&mut *has_rung) {
            self.rings.wait(&mut has_rung);
        }
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        *self.has_rung.lock() = true;
        self.rings.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::runtime::Builder;

    use super::*;

    #[test]
    fn what_is_joined_with_work_that_waits_is_woken_too() {
        let elsewhere = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let timer = elsewhere.handle().clone();
        std::thread::spawn(move || elsewhere.block_on(std::future::pending::<()>()));
        let sleep = |milliseconds| {
            let _entered = timer.enter();
            tokio::time::sleep(Duration::from_millis(milliseconds))
        };
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let both = async {
            // It is woken while the other one waits.
            let woken = sleep(20);
            let waits = async { wait_for(sleep(100)) };
            tokio::join!(woken, waits)
        };
        let limited = async { tokio::time::timeout(Duration::from_secs(20), both).await };
        runtime.block_on(limited).expect("both end");
    }
}
