//! The parsers of this crate without a connection, for `fuzz/` and for the tests that replay its inputs.
//!
//! This is not an interface. It is public because a fuzz target is another crate, hidden from the documentation, and
//! nothing else uses it. Heads and bodies are read by the same code as in `connection.rs`.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf, join, sink};

use crate::body::{Body, Next};
use crate::head::{self, Parsed, Persistence};
use crate::submission;

const MAX_HEAD: usize = 16 * 1024;
const MAX_BODY: usize = 16 * 1024;

/// A request that would be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub method: String,
    pub path: String,
    /// The whole body, without its framing.
    pub body: Vec<u8>,
    /// Where it begins and ends in the input.
    pub begin: usize,
    pub end: usize,
    /// The connection closes after it.
    pub closes: bool,
}

/// The requests at the begin of `bytes`, up to the first that is refused, is not complete, or closes the
/// connection. At most `piece` bytes arrive at once.
pub fn requests(bytes: &[u8], piece: usize) -> Vec<Seen> {
    let reading = pin!(read_all(bytes, piece));
    match reading.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(found) => found,
        Poll::Pending => unreachable!("the bytes are in memory"),
    }
}

async fn read_all(bytes: &[u8], piece: usize) -> Vec<Seen> {
    let mut found = Vec::new();
    let awaited = Cell::new(false);
    let mut stream = join(Pieces { bytes, at: 0, piece }, sink());
    let (mut input, mut begin) = (Vec::new(), 0);
    loop {
        let head = match head::parse(&input, MAX_HEAD) {
            Parsed::Partial => match stream.read_buf(&mut input).await {
                Ok(1..) => continue,
                _ => return found,
            },
            Parsed::Whole(head) if head.is_sound => head,
            _ => return found,
        };
        let mut body = Body::new(&head, &input[head.len..], &mut stream, &awaited);
        let Ok(content) = body.read(MAX_BODY, Duration::MAX).await.map(<[u8]>::to_vec) else { return found };
        let Some(next) = body.skip(MAX_BODY).await else { return found };
        let end = match &next {
            Next::Arrived(len) => begin + head.len + len,
            Next::Later(ahead) => stream.reader().at - ahead.len(),
        };
        let closes = head.connection == Persistence::Closes;
        let (method, path) = (head.method.to_owned(), head.path.to_owned());
        let head_len = head.len;
        found.push(Seen { method, path, body: content, begin, end, closes });
        if closes {
            return found;
        }
        begin = end;
        match next {
            Next::Arrived(len) => drop(input.drain(..head_len + len)),
            Next::Later(ahead) => input = ahead,
        }
    }
}

/// The `profileUrl` that a body submits, or the code of the reason why there is none.
pub fn profile_url(body: &[u8]) -> Result<String, &'static str> {
    submission::profile_url(body).map(std::borrow::Cow::into_owned).map_err(|fault| fault.reason.code)
}

/// Bytes that arrive in pieces.
struct Pieces<'a> {
    bytes: &'a [u8],
    at: usize,
    piece: usize,
}

impl AsyncRead for Pieces<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let len = self.piece.min(buffer.remaining()).min(self.bytes.len() - self.at);
        buffer.put_slice(&self.bytes[self.at..self.at + len]);
        self.at += len;
        Poll::Ready(Ok(()))
    }
}
