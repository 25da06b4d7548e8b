//! The body of a request: reading it within its limits, and knowing where the next request begins.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use bytes::BufMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::chunked::{ChunkFault, Chunks};
use crate::head::{Framing, Head};
use crate::refusal::Refusal;

/// How much of a chunked body is read at a time.
const PIECE: usize = 8 * 1024;

/// The body of a request whose head was read. Most bodies came with it, and are where they are.
pub(crate) struct Body<'a> {
    stream: &'a mut TcpStream,
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

impl<'a> Body<'a> {
    pub(crate) fn new(head: &Head<'_>, arrived: &'a [u8], stream: &'a mut TcpStream) -> Self {
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
    pub(crate) fn stream(&mut self) -> &mut TcpStream {
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
