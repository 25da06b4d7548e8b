//! The body of a request: reads it within its limits, and finds where the next request begins.

use std::cell::Cell;
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

/// How many bytes of a chunked body are read at a time.
const PIECE: usize = 8 * 1024;

/// The body of a request whose head was read. Most bodies arrive with the head and are not copied.
pub(crate) struct Body<'a, S> {
    stream: &'a mut S,
    /// Whether its reader waits for the client.
    awaited: &'a Cell<bool>,
    /// The bytes that arrived after the head: this body, and later requests if the client pipelines.
    arrived: &'a [u8],
    framing: Framing,
    /// The client waits for `100 Continue` before it sends the body.
    expects_continue: bool,
    /// The body, if it did not arrive with the head in one piece.
    joined: Vec<u8>,
    /// Bytes of the next request that were already read.
    ahead: Vec<u8>,
    end: End,
}

/// Where the body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    NotFound,
    /// This many bytes after the head.
    Arrived(usize),
    /// After the bytes that arrived with the head.
    Later,
}

/// Where the next request begins.
pub(crate) enum Next {
    /// This many bytes after the head.
    Arrived(usize),
    /// With these bytes, which were read later than the head.
    Later(Vec<u8>),
}

impl<'a, S: Stream> Body<'a, S> {
    pub(crate) fn new(
        head: &Head<'_>,
        arrived: &'a [u8],
        stream: &'a mut S,
        awaited: &'a Cell<bool>,
    ) -> Self {
        let end = if head.framing == Framing::Length(0) { End::Arrived(0) } else { End::NotFound };
        Self {
            stream,
            awaited,
            arrived,
            framing: head.framing,
            expects_continue: head.expects_continue,
            joined: Vec::new(),
            ahead: Vec::new(),
            end,
        }
    }

    /// Its length according to the client.
    pub(crate) fn declared_len(&self) -> Option<u64> {
        match self.framing {
            Framing::Length(length) => Some(length),
            Framing::Chunked => None,
        }
    }

    /// Whether all of it arrived with the head. Always false for a chunked body.
    pub(crate) fn has_arrived(&self) -> bool {
        self.declared_len().is_some_and(|length| length <= self.arrived.len() as u64)
    }

    /// The whole body. A timer is only set if parts of the body are still missing.
    pub(crate) async fn read(&mut self, limit: usize, timeout: Duration) -> Result<&[u8], Refusal> {
        if let Some(whole) = self.whole(limit) {
            return Ok(whole);
        }
        let awaited = self.awaited;
        let found = {
            let mut reading = pin!(self.find_end(limit));
            match poll_once(reading.as_mut()).await {
                Poll::Ready(found) => found,
                Poll::Pending => {
                    awaited.set(true);
                    let read = tokio::time::timeout(timeout, reading).await;
                    awaited.set(false);
                    read.unwrap_or(Err(Refusal::Timeout))
                }
            }
        };
        found?;
        Ok(match (self.framing, self.end) {
            (Framing::Length(_), End::Arrived(len)) => &self.arrived[..len],
            _ => &self.joined,
        })
    }

    /// Waits for the rest of a body that the client sends by itself, but not longer than `timeout`. Reading can go on afterwards.
    pub(crate) async fn wait(&mut self, limit: usize, timeout: Duration) {
        // What is read of chunks is lost if reading is given up.
        if self.declared_len().is_some() && !self.expects_continue {
            let _ = tokio::time::timeout(timeout, self.find_end(limit)).await;
        }
    }

    /// The whole body, if its end was found.
    pub(crate) fn received(&self) -> Option<&[u8]> {
        match (self.framing, self.end) {
            (_, End::NotFound) => None,
            (Framing::Length(_), End::Arrived(len)) => self.arrived.get(..len),
            _ => Some(&self.joined),
        }
    }

    /// The body, if all of it arrived with the head and it is within the limit.
    fn whole(&mut self, limit: usize) -> Option<&'a [u8]> {
        let length = usize::try_from(self.declared_len()?).ok().filter(|&length| length <= limit)?;
        let whole = self.arrived.get(..length)?;
        self.end = End::Arrived(length);
        Some(whole)
    }

    /// Where the next request begins, if this body has ended with the bytes that arrived with its head.
    pub(crate) fn end_arrived(&self) -> Option<usize> {
        match self.end {
            End::Arrived(len) => Some(len),
            End::NotFound | End::Later => None,
        }
    }

    /// Whether the rest of the body can be read and discarded: it is within the limit, and the client will
    /// send it. A client that still waits for `100 Continue` may never send it.
    pub(crate) fn can_be_skipped(&self, limit: usize) -> bool {
        self.end != End::NotFound
            || (!self.expects_continue && self.declared_len().is_none_or(|length| length <= limit as u64))
    }

    /// Reads the rest of this body. Returns where the next request begins.
    pub(crate) async fn skip(mut self, limit: usize) -> Option<Next> {
        self.find_end(limit).await.ok()?;
        match self.end {
            End::Arrived(len) => Some(Next::Arrived(len)),
            End::Later => Some(Next::Later(self.ahead)),
            End::NotFound => None,
        }
    }

    /// The connection, for writing the answer.
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
                if self.whole(limit).is_some() {
                    return Ok(());
                }
                self.read_rest(length).await
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
            // Do not read into the next request.
            let left = length - self.joined.len();
            let read = self.stream.read_buf(&mut (&mut self.joined).limit(left)).await;
            // The client disconnected or ended its stream.
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

    /// Sends `100 Continue` if the client waits for it.
    async fn say_continue(&mut self) -> Result<(), Refusal> {
        if std::mem::take(&mut self.expects_continue) && self.arrived.is_empty() {
            let said = self.stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await;
            said.map_err(|_| Refusal::BadRequest)?;
            self.stream.flush().await.map_err(|_| Refusal::BadRequest)?;
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

    #[test]
    fn a_body_that_arrived_with_its_head_is_not_copied() {
        run(async {
            let (_client, mut stream) = tokio::io::duplex(64);
            let (arrived, awaited) = (b"12345POST", Cell::new(false));
            let text = b"POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 5\r\n\r\n";
            let Parsed::Whole(head) = head::parse(text, 1_000) else { panic!("not a head") };
            let mut body = Body::new(&head, arrived, &mut stream, &awaited);
            assert!(body.has_arrived());
            let read = body.read(100, Duration::ZERO).await.expect("reads");
            assert!(std::ptr::eq(read, &arrived[..5]));
        });
    }
}
