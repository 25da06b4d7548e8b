//! Accepts connections, and stops gracefully.

use std::future::Future;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener as StdTcpListener, TcpStream as StdTcpStream};
use std::sync::Arc;
use std::time::Duration;

use contactd_core::store::LocalRead;
use parking_lot::Mutex;
use rustix::net::sockopt;
use tokio::net::TcpListener;

use crate::App;
use crate::client_address::Peer;
use crate::client_connections::Reception;
use crate::slots::ConnectionSlot;
use crate::worker::{Accepted, Worker};

/// How long a new connection waits for a slot before another connection is told to give way.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// What happens at the stop to connections that wait to be accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtStop {
    /// They are accepted and answered, as long as slots are free: the listener is closed after that.
    AcceptWaiting,
    /// They wait for the next server: somebody else keeps the listener open.
    LeaveWaiting,
}

/// Serves a bound listener until `stop` is ready, then stops gracefully: requests on open connections are still
/// answered within the stop timeout.
pub async fn serve<D: LocalRead>(
    listener: StdTcpListener,
    app: Arc<App<D>>,
    stop: impl Future<Output = ()>,
    at_stop: AtStop,
) -> io::Result<()> {
    let workers = (0..app.now().settings.workers.max(1))
        .map(|number| Worker::start(number, Arc::clone(&app)))
        .collect::<io::Result<Vec<_>>>()?;
    let door = Door::open(listener, Arc::clone(&app))?;
    tokio::select! {
        () = stop => {}
        () = door.accept_all(&workers) => {}
    }
    app.stop();
    door.hand_over_held(&workers);
    if at_stop == AtStop::AcceptWaiting {
        door.empty(&workers);
    }
    drop(door);
    let patience = app.now().settings.stop_timeout;
    finish(workers, patience).await;
    Ok(())
}

/// How much the system holds of the answers that a client does not read, of each connection. It would be megabytes. Linux
/// doubles this, and counts its own overhead.
const SEND_BUFFER: usize = 64 * 1024;

/// The listener, and the app that has the slots for its connections.
struct Door<D> {
    listener: TcpListener,
    /// The same socket, to accept without the event loop, which may not know of new connections yet.
    queue: StdTcpListener,
    app: Arc<App<D>>,
    /// A connection that was accepted and has no slot yet.
    held: Mutex<Option<(StdTcpStream, SocketAddr)>>,
}

impl<D: LocalRead> Door<D> {
    fn open(listener: StdTcpListener, app: Arc<App<D>>) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        // Connections inherit it.
        sockopt::set_socket_send_buffer_size(&listener, SEND_BUFFER)?;
        let queue = listener.try_clone()?;
        let listener = TcpListener::from_std(listener)?;
        Ok(Self { listener, queue, app, held: Mutex::default() })
    }

    /// Accepts forever. Without a free slot, another connection has to give way to a new one, or the new one waits.
    async fn accept_all(&self, workers: &[Worker]) {
        loop {
            match self.listener.accept().await.and_then(|(stream, from)| Ok((stream.into_std()?, from))) {
                Ok(accepted) => {
                    self.hold(Some(accepted));
                    let slot = self.slot(workers).await;
                    if let Some((stream, from)) = self.hold(None) {
                        self.hand_over(stream, from, slot, workers);
                    }
                }
                Err(error) => {
                    // Most likely out of file descriptors: wait until some are free.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    }

    /// Holds a connection until it has a slot. Returns the one that was held before.
    fn hold(&self, accepted: Option<(StdTcpStream, SocketAddr)>) -> Option<(StdTcpStream, SocketAddr)> {
        std::mem::replace(&mut self.held.lock(), accepted)
    }

    /// Serves the connection that is held without a slot, over the limit: it is the last one.
    fn hand_over_held(&self, workers: &[Worker]) {
        if let Some((stream, from)) = self.hold(None)
            && let Some(slot) = self.app.slots.try_take(usize::MAX)
        {
            self.hand_over(stream, from, slot, workers);
        }
    }

    /// Waits for a slot. If none is free, the connection that has waited longest for its client gives way.
    async fn slot(&self, workers: &[Worker]) -> ConnectionSlot {
        let most = || self.app.now().settings.max_connections;
        loop {
            if let Some(slot) = self.app.slots.try_take(most()) {
                return slot;
            }
            let longest = workers.iter().filter_map(|worker| Some((worker.longest_wait()?, worker)));
            if let Some((_, worker)) = longest.max_by_key(|(wait, _)| *wait) {
                self.app.metrics.count_gave_way();
                worker.give_way();
            }
            if let Ok(slot) = tokio::time::timeout(LOOK_AGAIN, self.app.slots.take(most)).await {
                return slot;
            }
        }
    }

    /// Accepts the connections that are waiting now, as long as slots are free.
    fn empty(&self, workers: &[Worker]) {
        let most = self.app.now().settings.max_connections;
        while let Some(slot) = self.app.slots.try_take(most) {
            match self.queue.accept() {
                Ok((stream, from)) => self.hand_over(stream, from, slot, workers),
                // A client that gave up while waiting does not affect the others.
                Err(error)
                    if matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::Interrupted) => {}
                Err(_) => return,
            }
        }
    }

    fn hand_over(&self, stream: StdTcpStream, from: SocketAddr, slot: ConnectionSlot, workers: &[Worker]) {
        let peer = Peer::new(from.ip());
        let reception = self.app.clients.admit(&self.app.now().settings.clients, peer);
        if matches!(reception, Reception::Closed) {
            return;
        }
        let least_loaded = workers.iter().min_by_key(|worker| worker.load());
        let prepared = stream.set_nodelay(true).and_then(|()| stream.set_nonblocking(true));
        if let (Some(worker), Ok(())) = (least_loaded, prepared) {
            worker.give(Accepted { stream, slot, peer, reception });
        }
    }
}

/// Waits until the workers have finished their connections, at most for `timeout`.
async fn finish(workers: Vec<Worker>, timeout: Duration) {
    let threads: Vec<_> = workers.into_iter().map(Worker::finish).collect();
    let all_finished = async {
        while !threads.iter().all(|thread| thread.is_finished()) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    if tokio::time::timeout(timeout, all_finished).await.is_err() {
        tracing::warn!("some requests did not finish in time and were cut off");
    }
}
