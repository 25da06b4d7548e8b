//! Accepting connections, and stopping without losing one.

use std::future::Future;
use std::io::{self, ErrorKind};
use std::net::{TcpListener as StdTcpListener, TcpStream as StdTcpStream};
use std::sync::Arc;
use std::time::Duration;

use contactd_core::store::Details;
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::App;
use crate::router::Site;
use crate::worker::{Accepted, Worker};

/// Connections at once on the admin listener.
const ADMIN_CONNECTIONS: usize = 64;

/// Two listeners, already bound.
pub struct Listeners {
    /// For callers.
    pub public: StdTcpListener,
    /// For the operator.
    pub admin: StdTcpListener,
}

/// Serves both listeners until `stop` is ready, then stops gracefully: whoever was
/// connected or waiting to be accepted is answered, within the stop timeout.
pub async fn serve<D: Details>(
    listeners: Listeners,
    app: Arc<App<D>>,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    let workers = (0..app.settings.workers.max(1))
        .map(|number| Worker::start(number, Arc::clone(&app)))
        .collect::<io::Result<Vec<_>>>()?;
    let public = Door::open(listeners.public, Site::Public, app.settings.max_connections)?;
    let admin = Door::open(listeners.admin, Site::Admin, ADMIN_CONNECTIONS)?;
    tokio::select! {
        () = stop => {}
        () = public.accept_all(&workers) => {}
        () = admin.accept_all(&workers) => {}
    }
    app.stop();
    public.empty(&workers);
    admin.empty(&workers);
    drop((public, admin));
    finish(workers, app.settings.stop_timeout).await;
    Ok(())
}

/// A listener, and the places for its connections.
struct Door {
    listener: TcpListener,
    /// The same socket, to be asked without the event loop, which may not have heard yet.
    queue: StdTcpListener,
    site: Site,
    places: Arc<Semaphore>,
}

impl Door {
    fn open(listener: StdTcpListener, site: Site, places: usize) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let queue = listener.try_clone()?;
        let listener = TcpListener::from_std(listener)?;
        Ok(Self { listener, queue, site, places: Arc::new(Semaphore::new(places)) })
    }

    /// Accepts for ever. Without a free place it waits, and so do new connections.
    async fn accept_all(&self, workers: &[Worker]) {
        loop {
            let Ok(place) = Arc::clone(&self.places).acquire_owned().await else {
                return;
            };
            match self.listener.accept().await.and_then(|(stream, _)| stream.into_std()) {
                Ok(stream) => self.hand_over(stream, place, workers),
                Err(error) => {
                    // Out of file descriptors, most likely: some will be free in a moment.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    }

    /// Accepts what is waiting now, and no more.
    fn empty(&self, workers: &[Worker]) {
        while let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
            match self.queue.accept() {
                Ok((stream, _)) => self.hand_over(stream, place, workers),
                // One that gave up while it waited does not stop the others.
                Err(error)
                    if matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::Interrupted) => {}
                Err(_) => return,
            }
        }
    }

    fn hand_over(&self, stream: StdTcpStream, place: OwnedSemaphorePermit, workers: &[Worker]) {
        let least_loaded = workers.iter().min_by_key(|worker| worker.load());
        let prepared = stream.set_nodelay(true).and_then(|()| stream.set_nonblocking(true));
        if let (Some(worker), Ok(())) = (least_loaded, prepared) {
            worker.give(Accepted { stream, site: self.site, place });
        }
    }
}

/// Waits for the workers to finish their connections, but not for ever.
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
