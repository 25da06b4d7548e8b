//! Turns a panic in a handler into an error, which is answered as an internal error.

use std::future::Future;
use std::panic::{self, AssertUnwindSafe};
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

/// A handler panicked.
#[derive(Debug)]
pub(crate) struct Panicked;

/// Runs `future` and returns a panic in it as an error.
pub(crate) fn caught<F: Future>(future: F) -> impl Future<Output = Result<F::Output, Panicked>> {
    Caught { future }
}

pin_project! {
    struct Caught<F> { #[pin] future: F }
}

impl<F: Future> Future for Caught<F> {
    type Output = Result<F::Output, Panicked>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let future = self.project().future;
        match panic::catch_unwind(AssertUnwindSafe(|| future.poll(cx))) {
            Ok(poll) => poll.map(Ok),
            Err(_) => Poll::Ready(Err(Panicked)),
        }
    }
}
