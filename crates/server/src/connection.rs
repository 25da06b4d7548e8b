//! One connection: its deadlines, and how it ends.
//!
//! hyper reads and writes; around it stands what it has no word for. [`Watched`] sees the
//! bytes that come in, [`Exchange`] knows which phase the connection is in and until when,
//! and the worker's sweep, every 100 ms, ends the connections that are past that. A request
//! on a busy connection costs two stores to a cell for all this, and no timer.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use contactd_core::store::Details;
use http::Request;
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;

use crate::router::{self, Site};
use crate::{App, Settings};

/// How much of an unwanted body is read, and for how long, so that the client can read
/// its answer before the connection is gone.
const LINGER_BYTES: usize = 1 << 20;
const LINGER_TIME: Duration = Duration::from_secs(1);

/// The smallest buffer hyper works with.
const MIN_BUFFER: usize = 8 * 1024;

/// How long a connection that is between requests may still send one once the service stops.
const STOP_GRACE: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Open, and no request has been read yet.
    New,
    /// Between two requests.
    Idle,
    /// The head of a later request has begun.
    Head,
    /// A request is being worked on.
    Serving,
}

/// The state of a connection, shared by its reader, its handler and the worker's sweep.
pub(crate) struct Exchange {
    phase: Cell<Phase>,
    /// When the phase has to be over, on the worker's clock.
    deadline: Cell<Option<Duration>>,
    clock: Rc<WorkerClock>,
    head: RefCell<HeadScan>,
    linger: Cell<bool>,
    expired: Cell<bool>,
    waker: RefCell<Option<Waker>>,
    head_timeout: Duration,
    idle_timeout: Duration,
}

/// The time since the worker began, as of its last sweep.
#[derive(Default)]
pub(crate) struct WorkerClock(Cell<Duration>);

impl WorkerClock {
    pub(crate) fn set(&self, now: Duration) {
        self.0.set(now);
    }
}

impl Exchange {
    pub(crate) fn new(clock: Rc<WorkerClock>, settings: &Settings) -> Rc<Self> {
        Rc::new(Self {
            phase: Cell::new(Phase::New),
            deadline: Cell::new(Some(clock.0.get() + settings.head_timeout)),
            clock,
            head: RefCell::default(),
            linger: Cell::new(false),
            expired: Cell::new(false),
            waker: RefCell::new(None),
            head_timeout: settings.head_timeout,
            idle_timeout: settings.idle_timeout,
        })
    }

    /// Whether a line of this request's head ended without a carriage return.
    pub(crate) fn had_bare_line_feed(&self) -> bool {
        self.head.borrow().bare_line_feed
    }

    /// The body of this request was not read to its end: see that the client can read the
    /// answer all the same.
    pub(crate) fn linger(&self) {
        self.linger.set(true);
    }

    /// Ends the connection if it is past its deadline.
    pub(crate) fn sweep(&self, stopping: bool) {
        let now = self.clock.0.get();
        if stopping && matches!(self.phase.get(), Phase::New | Phase::Idle) {
            let grace = now + STOP_GRACE;
            self.deadline.set(Some(self.deadline.get().map_or(grace, |deadline| deadline.min(grace))));
        }
        if self.deadline.get().is_some_and(|deadline| now >= deadline) {
            self.expired.set(true);
            if let Some(waker) = self.waker.borrow_mut().take() {
                waker.wake();
            }
        }
    }

    fn bytes_came(&self, bytes: &[u8]) {
        if self.phase.get() == Phase::Idle {
            self.enter(Phase::Head, Some(self.head_timeout));
        }
        self.head.borrow_mut().scan(bytes);
    }

    fn request_begins(&self) {
        self.enter(Phase::Serving, None);
    }

    /// The answer is made; `body` is how long the request's body was, if that is known.
    fn request_ends(&self, body: Option<u64>) {
        self.head.borrow_mut().next(body);
        self.enter(Phase::Idle, Some(self.idle_timeout));
    }

    fn enter(&self, phase: Phase, within: Option<Duration>) {
        self.phase.set(phase);
        self.deadline.set(within.map(|within| self.clock.0.get() + within));
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

/// Looks for line feeds without a carriage return in the head of a request, up to the empty
/// line that ends it. A parser that takes them and one that does not see two different
/// requests in the same bytes.
///
/// It can only tell where a head begins while each request waits for the answer to the one
/// before. On a connection where one did not, nothing more is scanned.
#[derive(Default)]
struct HeadScan {
    bare_line_feed: bool,
    done: bool,
    line_len: usize,
    last: u8,
    any_line: bool,
    /// Bytes that came after the head: the body, and more if the client does not wait.
    behind: u64,
    pipelined: bool,
}

impl HeadScan {
    /// Makes ready for the next head.
    fn next(&mut self, body: Option<u64>) {
        let pipelined = self.pipelined || body.is_none_or(|body| self.behind > body);
        *self = Self { pipelined, done: pipelined, ..Self::default() };
    }

    fn scan(&mut self, mut bytes: &[u8]) {
        while !self.done {
            let Some(at) = memchr::memchr(b'\n', bytes) else {
                self.line_len += bytes.len();
                self.last = bytes.last().copied().unwrap_or(self.last);
                return;
            };
            let before = if at > 0 { bytes[at - 1] } else { self.last };
            let has_return = before == b'\r' && self.line_len + at > 0;
            self.bare_line_feed |= !has_return;
            let is_empty = self.line_len + at == usize::from(has_return);
            self.done = is_empty && self.any_line;
            self.any_line |= !is_empty;
            self.line_len = 0;
            self.last = b'\n';
            bytes = &bytes[at + 1..];
        }
        self.behind += bytes.len() as u64;
    }
}

/// Serves a connection to its end.
pub(crate) async fn serve<D: Details>(
    app: Arc<App<D>>,
    site: Site,
    stream: TcpStream,
    exchange: Rc<Exchange>,
) {
    let service = service_fn(|request: Request<Incoming>| {
        exchange.request_begins();
        let (app, exchange, body) = (&app, &exchange, request.body().size_hint().exact());
        // Boxed, because getting the stream back in the end needs a future that can move.
        Box::pin(async move {
            let answer = router::handle(app, site, exchange, request).await;
            exchange.request_ends(body);
            Ok::<_, Infallible>(answer)
        })
    });
    let io = TokioIo::new(Watched { stream, exchange: Rc::clone(&exchange) });
    let mut connection = http1::Builder::new()
        .half_close(true)
        // Answers are small: one buffer costs less to write than two.
        .writev(false)
        .header_read_timeout(None)
        .max_header_size(app.settings.max_head)
        // Reads grow up to this for whoever sends fast; hyper's own limit is 25 times as much.
        .max_buf_size((app.settings.max_head + 1024).max(MIN_BUFFER))
        .serve_connection(io, service);

    let finished = poll_fn(|cx| {
        if exchange.poll_expired(cx).is_ready() {
            return Poll::Ready(None);
        }
        connection.poll_without_shutdown(cx).map(Some)
    });
    // A connection that broke has nobody left to tell.
    if let Some(Ok(())) = finished.await {
        let stream = connection.into_parts().io.into_inner().stream;
        close(stream, exchange.linger.get()).await;
    }
}

/// Says that nothing more will come, and, if the client may still be sending, takes a
/// bounded amount of it: closing at once would destroy the answer on its way.
async fn close(mut stream: TcpStream, linger: bool) {
    if stream.shutdown().await.is_err() || !linger {
        return;
    }
    let mut dropping = pin!(async {
        let mut left = LINGER_BYTES;
        let mut buffer = vec![0; 16 * 1024];
        while left > 0 {
            match stream.read(&mut buffer).await {
                Ok(read @ 1..) => left = left.saturating_sub(read),
                Ok(0) | Err(_) => return,
            }
        }
    });
    let _ = tokio::time::timeout(LINGER_TIME, dropping.as_mut()).await;
}

/// A stream that tells its [`Exchange`] what comes in.
struct Watched {
    stream: TcpStream,
    exchange: Rc<Exchange>,
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        if polled.is_ready() {
            self.exchange.bytes_came(&buf.filled()[before..]);
        }
        polled
    }
}

impl AsyncWrite for Watched {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scans a head cut into pieces at every place.
    fn is_bare(head: &str) -> bool {
        let mut results = Vec::new();
        for cut in 0..=head.len() {
            let mut scan = HeadScan::default();
            scan.scan(&head.as_bytes()[..cut]);
            scan.scan(&head.as_bytes()[cut..]);
            results.push(scan.bare_line_feed);
        }
        assert!(results.windows(2).all(|pair| pair[0] == pair[1]), "depends on the cut: {head:?}");
        results[0]
    }

    #[test]
    fn a_bare_line_feed_in_the_head_is_seen() {
        assert!(is_bare("POST / HTTP/1.1\nHost: x\r\n\r\n"));
        assert!(is_bare("POST / HTTP/1.1\r\nHost: x\n\r\n"));
        assert!(is_bare("POST / HTTP/1.1\r\nHost: x\r\n\n"));
        assert!(is_bare("\nPOST / HTTP/1.1\r\n\r\n"));
    }

    #[test]
    fn line_feeds_in_the_body_are_the_bodys_business() {
        assert!(!is_bare("POST / HTTP/1.1\r\nHost: x\r\n\r\n{\n\"a\":\n1}\n\n"));
        assert!(!is_bare("\r\nPOST / HTTP/1.1\r\nHost: x\r\n\r\n\n"));
    }
}
