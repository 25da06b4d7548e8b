//! Handshakes: signing is the expensive part, so it is done one at a time, and everything else that is ready comes between two.

use std::io;

use rustls::server::Acceptor;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;

use crate::Tls;

/// How many bytes of an answer wait, encrypted, until the client reads.
const WRITE_BUFFER: usize = 16 * 1024;

/// The handshakes of one thread, in the order in which their clients have sent what is needed. A client that does not go on holds
/// nobody up.
#[derive(Debug)]
pub struct HandshakeQueue(Semaphore);

impl Default for HandshakeQueue {
    fn default() -> Self {
        Self(Semaphore::new(1))
    }
}

impl Tls {
    /// Does the handshake of a new connection. The caller has to set a limit to how long it takes.
    pub async fn accept<S>(&self, stream: S, queue: &HandshakeQueue) -> io::Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let start = LazyConfigAcceptor::new(Acceptor::default(), stream).await?;
        let first_in_queue = queue.0.acquire().await.map_err(io::Error::other)?;
        // This computes the keys and signs.
        let accepting =
            start.into_stream_with(self.config(), |session| session.set_buffer_limit(Some(WRITE_BUFFER)));
        // Lookups of open connections that are ready come before the next signature.
        tokio::task::yield_now().await;
        drop(first_in_queue);
        accepting.await
    }
}
