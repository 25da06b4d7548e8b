//! A worker's turn: every request that is ready is worked on, then all their answers are written.
//!
//! One step's code stays in the processor's cache that way, and a client is woken once for many
//! answers instead of once for each. A request that is alone has a turn of its own and waits for nobody.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::task::{Poll, Waker};

#[derive(Default)]
pub(crate) struct Turn {
    number: Cell<u64>,
    /// Those whose work is done and whose answer is not written.
    waiting: RefCell<Vec<Waker>>,
    /// The task that ends turns.
    ender: RefCell<Option<Waker>>,
}

impl Turn {
    /// Ends turns, for ever. Being a task like the connections, it comes after all that were ready
    /// when it was woken.
    pub(crate) async fn run(&self) {
        poll_fn(|cx| {
            self.ender.replace(Some(cx.waker().clone()));
            self.number.update(|number| number + 1);
            self.waiting.borrow_mut().drain(..).for_each(Waker::wake);
            Poll::<()>::Pending
        })
        .await;
    }

    /// Ready when everyone else who was ready has been worked on.
    pub(crate) async fn end(&self) {
        let this = self.number.get();
        poll_fn(|cx| {
            if self.number.get() != this {
                return Poll::Ready(());
            }
            let mut waiting = self.waiting.borrow_mut();
            if waiting.is_empty()
                && let Some(ender) = &*self.ender.borrow()
            {
                ender.wake_by_ref();
            }
            waiting.push(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}
