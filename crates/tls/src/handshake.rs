//! Handshakes: signing is the expensive part, so it is done one at a time, and everything else that is ready comes between two.

use std::io;

use rustls::server::Acceptor;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Mutex;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;

use crate::Tls;

/// How many bytes of an answer wait, encrypted, until the client reads.
const WRITE_BUFFER: usize = 16 * 1024;

/// The handshakes of one thread, in the order in which their clients have sent what is needed. A client that does not go on holds
/// nobody up.
#[derive(Debug, Default)]
pub struct HandshakeQueue(Mutex<()>);

impl Tls {
    /// Does the handshake of a new connection. The caller has to set a limit to how long it takes.
    pub async fn accept<S>(&self, stream: S, queue: &HandshakeQueue) -> io::Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let start = LazyConfigAcceptor::new(Acceptor::default(), stream).await?;
        let first_in_queue = queue.0.lock().await;
        // This computes the keys and signs.
        let accepting =
            start.into_stream_with(self.config(), |session| session.set_buffer_limit(Some(WRITE_BUFFER)));
        // Lookups of open connections that are ready come before the next signature.
        tokio::task::yield_now().await;
        drop(first_in_queue);
        accepting.await
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;
    use std::sync::Arc;

    use rustls::pki_types::ServerName;
    use tokio::task::{LocalSet, spawn_local, yield_now};
    use tokio_rustls::TlsConnector;

    use super::*;
    use crate::testing::Made;

    #[test]
    fn other_tasks_come_between_two_handshakes_and_a_client_that_stops_holds_nobody_up() {
        const CLIENTS: usize = 20;
        let made = Made::ending_in_days(2);
        let (tls, queue) = (Rc::new(Tls::new(made.pair())), Rc::new(HandshakeQueue::default()));
        let connector = TlsConnector::from(Arc::new(made.client()));
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(LocalSet::new().run_until(async {
            let accept = |stream| {
                let (tls, queue) = (Rc::clone(&tls), Rc::clone(&queue));
                spawn_local(async move { tls.accept(stream, &queue).await.map(drop) })
            };
            // A client that is silent, and one that reads nothing after its first message.
            let (_silent, server) = tokio::io::duplex(64);
            accept(server);
            let (stopped, server) = tokio::io::duplex(600);
            accept(server);
            let name = ServerName::try_from("localhost").expect("a name");
            let stopped = connector.connect(name.clone(), stopped);
            let mut stopped = std::pin::pin!(stopped);
            let first = std::future::poll_fn(|cx| {
                std::task::Poll::Ready(std::future::Future::poll(stopped.as_mut(), cx).is_pending())
            });
            assert!(first.await);

            let rounds = Rc::new(Cell::new(0));
            let counted = Rc::clone(&rounds);
            spawn_local(async move {
                loop {
                    counted.set(counted.get() + 1);
                    yield_now().await;
                }
            });
            let mut clients = Vec::new();
            for _ in 0..CLIENTS {
                let (client, server) = tokio::io::duplex(1 << 16);
                let connecting = connector.connect(name.clone(), client);
                clients.push((spawn_local(connecting), accept(server)));
            }
            for (client, server) in clients {
                let _open = client.await.expect("runs").expect("a handshake");
                server.await.expect("runs").expect("a handshake");
            }
            assert!(rounds.get() >= CLIENTS, "{} rounds", rounds.get());
        }));
    }
}
