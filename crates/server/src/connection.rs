//! One connection: reads requests, answers them in order, and enforces deadlines.
//!
//! A request that arrives in one piece costs one read and one write. [`Exchange`] holds the phase of the
//! connection and its deadline. Every 100 ms the worker's sweep ends the connections that are past their
//! deadline, so a request sets a few cells and needs no timer.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use contactd_core::store::LocalRead;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::body::{Body, Next};
use crate::client_address::Peer;
use crate::head::{self, Parsed, Persistence};
use crate::refusal::Refusal;
use crate::router;
use crate::stream::Stream;
use crate::turn::Turn;
use crate::worker_clock::WorkerClock;
use crate::{App, Settings};

/// How much is still read before closing, and for how long, so that a client that is still sending can
/// read its answer.
const LINGER_BYTES: usize = 1 << 20;
const LINGER_TIME: Duration = Duration::from_secs(1);

/// The size of the read and write buffers that a connection keeps. Larger ones are shrunk after use.
const BUFFER: usize = 4 * 1024;

/// How long a connection without a request may still send one when the service stops.
const STOP_GRACE: Duration = Duration::from_secs(1);

/// How long a connection between two requests has waited before it may have to give way to another client, and how long
/// one that is in the middle of a request or has sent none yet.
const IDLE_LONG_ENOUGH: Duration = Duration::from_millis(300);
const SLOW_LONG_ENOUGH: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// No request has been read yet.
    New,
    /// Between two requests.
    Idle,
    /// Part of the head of a later request has arrived.
    Head,
    /// A request is being processed.
    Serving,
    /// Its answer is being written.
    Writing,
    /// The unused rest of a body is being read.
    Skipping,
}

/// The state of a connection, shared by its task and the worker's sweep.
pub(crate) struct Exchange {
    phase: Cell<Phase>,
    /// When the phase began, on the worker's clock.
    since: Cell<Duration>,
    /// The rest of a request's body has not arrived yet.
    awaits_body: Cell<bool>,
    /// It closes so that another client can be served, unless a request has arrived meanwhile.
    gives_way: Cell<bool>,
    /// When the phase must end, on the worker's clock.
    deadline: Cell<Option<Duration>>,
    clock: Rc<WorkerClock>,
    expired: Cell<bool>,
    waker: RefCell<Option<Waker>>,
    head_timeout: Duration,
    idle_timeout: Duration,
    body_timeout: Duration,
}

impl Exchange {
    pub(crate) fn new(clock: Rc<WorkerClock>, settings: &Settings) -> Rc<Self> {
        Rc::new(Self {
            phase: Cell::new(Phase::New),
            since: Cell::new(clock.elapsed()),
            awaits_body: Cell::new(false),
            gives_way: Cell::new(false),
            deadline: Cell::new(Some(clock.elapsed() + settings.head_timeout)),
            clock,
            expired: Cell::new(false),
            waker: RefCell::new(None),
            head_timeout: settings.head_timeout,
            idle_timeout: settings.idle_timeout,
            body_timeout: settings.body_timeout,
        })
    }

    /// Whether the connection is past its deadline.
    pub(crate) fn is_due(&self, stopping: bool) -> bool {
        let now = self.clock.elapsed();
        if stopping && matches!(self.phase.get(), Phase::New | Phase::Idle) {
            let grace = now + STOP_GRACE;
            self.deadline.set(Some(self.deadline.get().map_or(grace, |deadline| deadline.min(grace))));
        }
        self.deadline.get().is_some_and(|deadline| now >= deadline)
    }

    /// Ends the connection if it is still past its deadline.
    pub(crate) fn end_if_due(&self, stopping: bool) {
        if self.is_due(stopping) {
            self.expired.set(true);
            self.wake();
        }
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }

    /// Since when it has waited for its client, if that is long enough to give way to another one.
    pub(crate) fn waits_since(&self) -> Option<Duration> {
        let long_enough = match self.phase.get() {
            Phase::Idle => IDLE_LONG_ENOUGH,
            Phase::New | Phase::Head | Phase::Writing | Phase::Skipping => SLOW_LONG_ENOUGH,
            Phase::Serving if self.awaits_body.get() => SLOW_LONG_ENOUGH,
            Phase::Serving => return None,
        };
        let since = self.since.get();
        (!self.gives_way.get() && self.clock.elapsed() >= since + long_enough).then_some(since)
    }

    /// Closes the connection for another client, unless it has more to do by now.
    pub(crate) fn give_way(&self) {
        self.gives_way.set(true);
        self.wake();
    }

    /// Whether it closes now. If a request arrived in time, it does not.
    fn does_give_way(&self) -> bool {
        if !self.gives_way.get() {
            return false;
        }
        self.gives_way.set(false);
        let still_waits = self.waits_since().is_some();
        self.gives_way.set(still_waits);
        still_waits
    }

    /// Part of a head has arrived.
    fn head_begins(&self) {
        if self.phase.get() == Phase::Idle {
            self.enter(Phase::Head, Some(self.head_timeout));
        }
    }

    fn request_begins(&self) {
        self.enter(Phase::Serving, None);
    }

    /// The answer is ready. Writing it may take as long as the idle timeout.
    fn answer_begins(&self) {
        self.enter(Phase::Writing, Some(self.idle_timeout));
    }

    fn skipping_begins(&self) {
        self.enter(Phase::Skipping, Some(self.body_timeout));
    }

    fn request_ends(&self) {
        self.enter(Phase::Idle, Some(self.idle_timeout));
    }

    fn enter(&self, phase: Phase, within: Option<Duration>) {
        self.phase.set(phase);
        self.since.set(self.clock.elapsed());
        self.deadline.set(within.map(|within| self.clock.elapsed() + within));
    }

    /// The result of `future`; `None` if the connection is past its deadline before, or gives way to another client.
    pub(crate) async fn within_deadline<F: Future>(&self, mut future: Pin<&mut F>) -> Option<F::Output> {
        poll_fn(|cx| {
            if self.poll_expired(cx).is_ready() {
                return Poll::Ready(None);
            }
            // What has arrived by now is still served.
            let done = future.as_mut().poll(cx).map(Some);
            if done.is_pending() && self.does_give_way() { Poll::Ready(None) } else { done }
        })
        .await
    }

    /// Ready when the sweep has found the connection past its deadline.
    fn poll_expired(&self, cx: &Context<'_>) -> Poll<()> {
        if self.expired.get() {
            return Poll::Ready(());
        }
        let mut waker = self.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }
}

/// Serves a connection until it ends.
pub(crate) async fn serve<D: LocalRead>(
    app: Arc<App<D>>,
    mut stream: impl Stream,
    peer: Peer,
    exchange: Rc<Exchange>,
    turn: Rc<Turn>,
) {
    let ended = exchange.within_deadline(pin!(answer_all(&app, &mut stream, peer, &exchange, &turn))).await;
    match ended {
        Some(Ok(end)) => close(stream, end).await,
        // It broke.
        Some(Err(_)) => {}
        // It expired: it is dropped without further reading. TLS tells the client, if there is room to send.
        None => {
            poll_fn(|cx| {
                let _ = Pin::new(&mut stream).poll_shutdown(cx);
                Poll::Ready(())
            })
            .await;
        }
    }
}

/// Answers a connection that is over the limit of its address 503, without waiting for a request, and closes it.
pub(crate) async fn refuse<D: LocalRead>(app: Arc<App<D>>, mut stream: impl Stream, exchange: Rc<Exchange>) {
    let mut output = Vec::new();
    router::refuse_unread(&app, &Refusal::Overloaded, &exchange.clock, &mut output);
    let writing = tokio::time::timeout(LINGER_TIME, write(&mut stream, &output, None));
    if matches!(writing.await, Ok(Ok(()))) {
        close(stream, EndedBy::Server).await;
    }
}

/// Who ended a connection.
enum EndedBy {
    /// The client. It sends nothing more.
    Client,
    /// The server. The client may still be sending.
    Server,
}

/// Answers the requests on a connection in order, until the last one.
async fn answer_all<D: LocalRead>(
    app: &App<D>,
    stream: &mut impl Stream,
    peer: Peer,
    exchange: &Exchange,
    turn: &Turn,
) -> io::Result<EndedBy> {
    let mut input = Vec::with_capacity(BUFFER);
    let mut output = Vec::with_capacity(BUFFER);
    loop {
        if input.is_empty() && read(stream, &mut input).await? == 0 {
            return Ok(EndedBy::Client);
        }
        let configured = app.for_request();
        let next = match head::parse(&input, configured.settings.max_head) {
            Parsed::Partial => {
                // Line ends between two requests do not begin a request.
                if input.iter().any(|b| !matches!(b, b'\r' | b'\n')) {
                    exchange.head_begins();
                }
                if read(stream, &mut input).await? == 0 {
                    return Ok(EndedBy::Client);
                }
                continue;
            }
            Parsed::Whole(head) => {
                exchange.request_begins();
                let mut body = Body::new(&head, &input[head.len..], stream, &exchange.awaits_body);
                let answered =
                    router::handle(app, &configured, peer, &head, &mut body, turn, &mut output).await;
                exchange.answer_begins();
                if !answered.is_turn_over {
                    turn.end().await;
                }
                write(body.stream(), &output, answered.large).await?;
                if answered.connection == Persistence::Closes {
                    return Ok(EndedBy::Server);
                }
                let next = match body.end_arrived() {
                    Some(len) => Some(Next::Arrived(len)),
                    None => {
                        exchange.skipping_begins();
                        body.skip(answered.max_body).await
                    }
                };
                match next {
                    Some(Next::Arrived(behind)) => Next::Arrived(head.len + behind),
                    Some(later) => later,
                    None => return Ok(EndedBy::Server),
                }
            }
            broken => {
                let refusal = if matches!(broken, Parsed::TooLarge) {
                    Refusal::HeadTooLarge
                } else {
                    Refusal::BadRequest
                };
                router::refuse_unread(app, &refusal, &exchange.clock, &mut output);
                exchange.answer_begins();
                write(stream, &output, None).await?;
                return Ok(EndedBy::Server);
            }
        };
        exchange.request_ends();
        output.clear();
        match next {
            Next::Arrived(len) => drop(input.drain(..len)),
            Next::Later(ahead) => input = ahead,
        }
        input.shrink_to(BUFFER);
    }
}

/// Reads what has arrived, or waits for it. Returns 0 if the client has ended its stream.
async fn read(stream: &mut impl Stream, input: &mut Vec<u8>) -> io::Result<usize> {
    input.reserve(BUFFER / 2);
    stream.read_buf(input).await
}

async fn write(stream: &mut impl Stream, answer: &[u8], large: Option<Bytes>) -> io::Result<()> {
    stream.write_all(answer).await?;
    if let Some(body) = large {
        stream.write_all(&body).await?;
    }
    // With TLS, a part may still be in a buffer.
    stream.flush().await
}

/// Shuts down the sending side. If the client may still be sending, then reads and discards a limited amount:
/// closing at once could destroy the answer before the client reads it.
async fn close(mut stream: impl Stream, end: EndedBy) {
    let mut closing = pin!(async {
        // With TLS, this sends a last message, for which there may be no room.
        if stream.shutdown().await.is_err() || matches!(end, EndedBy::Client) {
            return;
        }
        let mut left = LINGER_BYTES;
        let mut buffer = vec![0; 16 * 1024];
        while left > 0 {
            match stream.read(&mut buffer).await {
                Ok(read @ 1..) => left = left.saturating_sub(read),
                Ok(0) | Err(_) => return,
            }
        }
    });
    let _ = tokio::time::timeout(LINGER_TIME, closing.as_mut()).await;
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;
    use crate::testing::{at, run};

    #[test]
    fn a_connection_that_gives_way_still_answers_a_request_that_arrived_at_the_last_moment() {
        run(async {
            let clock = Rc::new(WorkerClock::new(at()));
            let exchange = Exchange::new(Rc::clone(&clock), &Settings::default());
            exchange.request_ends();
            assert_eq!(exchange.waits_since(), None, "its client may be about to send");
            clock.set(IDLE_LONG_ENOUGH, at());
            assert_eq!(exchange.waits_since(), Some(Duration::ZERO));
            exchange.give_way();
            assert_eq!(exchange.within_deadline(pin!(ready(7))).await, Some(7));
            assert_eq!(exchange.within_deadline(pin!(pending::<u8>())).await, None);
        });
    }
}
