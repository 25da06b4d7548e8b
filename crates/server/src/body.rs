//! The body of a request: reading it within its limits, and knowing where the next request begins.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use bytes::BufMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::chunked::{ChunkFault, Chunks};
use crate::head::{Framing, Head};
use crate::refusal::Refusal;
use crate::stream::Stream;

/// How much of a chunked body is read at a time.
const PIECE: usize = 8 * 1024;

/// The body of a request whose head was read. Most bodies came with it, and are where they are.
pub(crate) struct Body<'a, S> {
    stream: &'a mut S,
    /// What came behind the head: this body, and more if the client does not wait.
    arrived: &'a [u8],
    framing: Framing,
    /// The client waits for a word before it sends.
    expects_continue: bool,
    /// The body, where it did not come with the head in one piece.
    joined: Vec<u8>,
    /// What was read of the next request.
    ahead: Vec<u8>,
    end: End,
}

/// Where the body ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    NotFound,
    /// So far behind the head.
    Arrived(usize),
    /// Later than everything that had arrived.
    Later,
}

/// Where the next request begins.
pub(crate) enum Next {
    /// So many bytes behind the head.
    Arrived(usize),
    /// With these bytes, that were read after the head.
    Later(Vec<u8>),
}

impl<'a, S: Stream> Body<'a, S> {
    pub(crate) fn new(head: &Head<'_>, arrived: &'a [u8], stream: &'a mut S) -> Self {
        let end = if head.framing == Framing::Length(0) { End::Arrived(0) } else { End::NotFound };
        Self {
            stream,
            arrived,
            framing: head.framing,
            expects_continue: head.expects_continue,
            joined: Vec::new(),
            ahead: Vec::new(),
            end,
        }
    }

    /// How long the client says it is.
    pub(crate) fn declared_len(&self) -> Option<u64> {
        match self.framing {
            Framing::Length(length) => Some(length),
            Framing::Chunked => None,
        }
    }

    /// Whether all of it came with the head. One in chunks counts as not.
    pub(crate) fn has_arrived(&self) -> bool {
        self.declared_len().is_some_and(|length| length <= self.arrived.len() as u64)
    }

    /// The whole body. Only one that is not all there gets a timer.
    pub(crate) async fn read(&mut self, limit: usize, timeout: Duration) -> Result<&[u8], Refusal> {
        let found = {
            let mut reading = pin!(self.find_end(limit));
            match poll_once(reading.as_mut()).await {
                Poll::Ready(found) => found,
                Poll::Pending => {
                    tokio::time::timeout(timeout, reading).await.unwrap_or(Err(Refusal::Timeout))
                }
            }
        };
        found?;
        Ok(match (self.framing, self.end) {
            (Framing::Length(_), End::Arrived(len)) => &self.arrived[..len],
            _ => &self.joined,
        })
    }

    /// Whether an end that was not read yet is worth reading to: it is not far, and will come. A client
    /// that was to be told to send may send or not.
    pub(crate) fn can_be_skipped(&self, limit: usize) -> bool {
        self.end != End::NotFound
            || (!self.expects_continue && self.declared_len().is_none_or(|length| length <= limit as u64))
    }

    /// Where the next request begins. Reads what was not read of this body.
    pub(crate) async fn skip(mut self, limit: usize) -> Option<Next> {
        self.find_end(limit).await.ok()?;
        match self.end {
            End::Arrived(len) => Some(Next::Arrived(len)),
            End::Later => Some(Next::Later(self.ahead)),
            End::NotFound => None,
        }
    }

    /// The connection, to write the answer to.
    pub(crate) fn stream(&mut self) -> &mut S {
        self.stream
    }

    async fn find_end(&mut self, limit: usize) -> Result<(), Refusal> {
        match self.framing {
            _ if self.end != End::NotFound => Ok(()),
            Framing::Length(length) => {
                let length = usize::try_from(length).unwrap_or(usize::MAX);
                if length > limit {
                    return Err(Refusal::TooLarge);
                }
                if length > self.arrived.len() {
                    return self.read_rest(length).await;
                }
                self.end = End::Arrived(length);
                Ok(())
            }
            Framing::Chunked => self.read_chunks(limit).await,
        }
    }

    async fn read_rest(&mut self, length: usize) -> Result<(), Refusal> {
        if self.joined.is_empty() {
            self.joined.reserve_exact(length);
            self.joined.extend_from_slice(self.arrived);
        }
        self.say_continue().await?;
        while self.joined.len() < length {
            // No byte of the next request is taken.
            let left = length - self.joined.len();
            let read = self.stream.read_buf(&mut (&mut self.joined).limit(left)).await;
            // The client is gone, or has said that no more will come.
            if !matches!(read, Ok(1..)) {
                return Err(Refusal::BadRequest);
            }
        }
        self.end = End::Later;
        Ok(())
    }

    async fn read_chunks(&mut self, limit: usize) -> Result<(), Refusal> {
        let mut chunks = Chunks::new();
        let used = chunks.feed(self.arrived, &mut self.joined, limit).map_err(refusal)?;
        self.end = if chunks.is_done() { End::Arrived(used) } else { End::NotFound };
        if !chunks.is_done() {
            self.say_continue().await?;
        }
        while !chunks.is_done() {
            self.ahead.clear();
            self.ahead.reserve(PIECE);
            if !matches!(self.stream.read_buf(&mut self.ahead).await, Ok(1..)) {
                return Err(Refusal::BadRequest);
            }
            let used = chunks.feed(&self.ahead, &mut self.joined, limit).map_err(refusal)?;
            if chunks.is_done() {
                self.ahead.drain(..used);
                self.end = End::Later;
            }
        }
        Ok(())
    }

    /// Tells a client that waits to send its body.
    async fn say_continue(&mut self) -> Result<(), Refusal> {
        if std::mem::take(&mut self.expects_continue) && self.arrived.is_empty() {
            let said = self.stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await;
            said.map_err(|_| Refusal::BadRequest)?;
        }
        Ok(())
    }
}

fn refusal(fault: ChunkFault) -> Refusal {
    match fault {
        ChunkFault::Broken => Refusal::BadRequest,
        ChunkFault::TooLarge => Refusal::TooLarge,
    }
}

async fn poll_once<F: Future + Unpin>(mut future: F) -> Poll<F::Output> {
    poll_fn(|cx| Poll::Ready(std::pin::Pin::new(&mut future).poll(cx))).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::head::{self, Parsed};
    use crate::testing::run;
    use tokio::io::DuplexStream;

    const TIME: Duration = Duration::from_secs(10);
    const LIMIT: usize = 100;

    /// A body with these headers, of which `arrived` came with the head; and the client's end.
    fn body<'a>(headers: &str, arrived: &'a [u8], stream: &'a mut DuplexStream) -> Body<'a, DuplexStream> {
        let text = format!("POST / HTTP/1.1\r\nHost: test\r\n{headers}\r\n\r\n");
        let Parsed::Whole(head) = head::parse(text.as_bytes(), 1_000) else { panic!("not a head") };
        Body::new(&head, arrived, stream)
    }

    #[test]
    fn a_body_that_came_with_its_head_is_where_it_is_and_the_next_request_begins_behind_it() {
        run(async {
            let (_client, mut stream) = tokio::io::duplex(64);
            let arrived = b"12345POST";
            let mut body = body("Content-Length: 5", arrived, &mut stream);
            assert!(body.has_arrived());
            let read = body.read(LIMIT, TIME).await.expect("reads");
            assert!(std::ptr::eq(read, &arrived[..5]), "it is not copied");
            assert!(matches!(body.skip(LIMIT).await, Some(Next::Arrived(5))));
        });
    }

    #[test]
    fn a_body_in_pieces_is_joined_and_no_byte_of_the_next_request_is_taken() {
        run(async {
            let (mut client, mut stream) = tokio::io::duplex(64);
            client.write_all(b"345POST").await.expect("sends");
            let mut body = body("Content-Length: 5", b"12", &mut stream);
            assert!(!body.has_arrived());
            assert_eq!(body.read(LIMIT, TIME).await.expect("reads"), b"12345");
            assert!(matches!(body.skip(LIMIT).await, Some(Next::Later(ahead)) if ahead.is_empty()));
            let mut next = [0; 4];
            stream.read_exact(&mut next).await.expect("reads");
            assert_eq!(&next, b"POST");
        });
    }

    #[test]
    fn what_was_read_behind_the_last_chunk_is_the_next_request() {
        run(async {
            let (mut client, mut stream) = tokio::io::duplex(64);
            client.write_all(b"lo\r\n0\r\n\r\nPOST").await.expect("sends");
            let mut body = body("Transfer-Encoding: chunked", b"5\r\nhel", &mut stream);
            assert_eq!(body.read(LIMIT, TIME).await.expect("reads"), b"hello");
            assert!(matches!(body.skip(LIMIT).await, Some(Next::Later(ahead)) if ahead == b"POST"));
        });
    }

    #[test]
    fn a_body_that_does_not_come_in_time_or_is_cut_off_or_too_large_is_told_apart() {
        run(async {
            let (client, mut stream) = tokio::io::duplex(64);
            let began = tokio::time::Instant::now();
            let refused = body("Content-Length: 5", b"12", &mut stream).read(LIMIT, TIME).await.err();
            assert!(matches!(refused, Some(Refusal::Timeout)));
            assert_eq!(began.elapsed(), TIME);
            let refused = body("Content-Length: 101", b"12", &mut stream).read(LIMIT, TIME).await.err();
            assert!(matches!(refused, Some(Refusal::TooLarge)));
            let refused =
                body("Transfer-Encoding: chunked", b"zz\r\n", &mut stream).read(LIMIT, TIME).await.err();
            assert!(matches!(refused, Some(Refusal::BadRequest)));
            drop(client);
            let refused = body("Content-Length: 5", b"12", &mut stream).read(LIMIT, TIME).await.err();
            assert!(matches!(refused, Some(Refusal::BadRequest)));
        });
    }

    #[test]
    fn a_client_that_waits_is_told_once_to_send() {
        run(async {
            let (mut client, mut stream) = tokio::io::duplex(64);
            let waiting = "Content-Length: 5\r\nExpect: 100-continue";
            {
                let mut body = body(waiting, b"", &mut stream);
                assert!(!body.can_be_skipped(LIMIT), "it may never send");
                let mut reading = pin!(body.read(LIMIT, TIME));
                assert!(poll_once(reading.as_mut()).await.is_pending());
                client.write_all(b"12345").await.expect("sends");
                assert_eq!(reading.await.expect("reads"), b"12345");
            }
            drop(stream);
            let mut told = String::new();
            client.read_to_string(&mut told).await.expect("reads");
            assert_eq!(told, "HTTP/1.1 100 Continue\r\n\r\n");
        });
    }
}
