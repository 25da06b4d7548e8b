//! Accepts connections to the admin listener and serves them on separate threads.

use std::io;
use std::net::TcpListener as StdTcpListener;
use std::pin::pin;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use contactd_core::blocking;
use contactd_tls::{HandshakeQueue, Tls};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot, watch};
use tokio_io_timeout::TimeoutStream;

use crate::api::Origin;
use crate::{Admin, Console, routes};

/// Threads that serve connections, and threads for blocking work beside one for each connection. So nobody waits for a thread because
/// others wait until their changes are in force, on a node that is away for example.
const THREADS: usize = 2;
const MORE_THREADS: usize = 16;

/// How much less priority they have than the threads that serve lookups.
const NICE: i32 = 10;

/// How long a handshake may take, and the head of a request, including the first one on a connection.
const HEAD_TIME: Duration = Duration::from_secs(5);

/// How long a client may take to accept more of an answer.
const WRITE_TIME: Duration = Duration::from_secs(5);

/// How long a connection may stay in all: long enough for a large file. One that nobody uses ends with the time for a head.
const CONNECTION_TIME: Duration = Duration::from_secs(4 * 3600);

/// How often it is looked whether those to whom jobs belong may still do this.
const LOOKED_EVERY: Duration = Duration::from_secs(2);

/// After how many such looks what is too old is deleted.
const TIDIED_EVERY: u32 = 300;

/// How long a connection may still send a request when the service stops, and how long answers may still take.
const LAST_REQUEST: Duration = Duration::from_millis(300);
const LAST_ANSWER: Duration = Duration::from_secs(2);

/// How long work that blocks, such as reading the store, may still take when the service stops.
const STOP_TIME: Duration = Duration::from_secs(5);

/// The running listener.
pub struct Running {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Running {
    /// Stops accepting, answers current requests and ends connections; waits a moment for work that blocks.
    pub fn finish(self) {
        let _ = self.stop.send(());
        let _ = self.thread.join();
    }
}

/// Serves a bound listener.
pub fn start(listener: StdTcpListener, admin: Admin) -> io::Result<Running> {
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .max_blocking_threads(admin.connections + MORE_THREADS)
        .thread_name("admin")
        // Threads of lookups come first.
        .on_thread_start(|| {
            let _ = rustix::process::setpriority_process(None, NICE);
        })
        .enable_all()
        .build()?;
    let console = admin.console.clone();
    let (stop, stopped) = oneshot::channel();
    let thread = std::thread::Builder::new().name("admin-accept".to_owned()).spawn(move || {
        if let Err(error) = runtime.block_on(accept_all(listener, Arc::new(admin), stopped)) {
            tracing::error!(%error, "cannot serve the admin listener");
        }
        // Jobs use the runtime.
        console.finish();
        runtime.shutdown_timeout(STOP_TIME);
    })?;
    Ok(Running { stop, thread })
}

async fn accept_all(
    listener: StdTcpListener,
    admin: Arc<Admin>,
    mut stopped: oneshot::Receiver<()>,
) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    let connections = admin.connections;
    let (end, ending) = watch::channel(false);
    let tls = admin.tls.clone().map(|tls| (tls, Arc::<HandshakeQueue>::default()));
    let slots = Arc::new(Semaphore::new(connections));
    tokio::spawn(tidy(admin.console.clone()));
    let router = routes::router(admin);
    loop {
        let accepting = async {
            let slot = Arc::clone(&slots).acquire_owned().await.map_err(io::Error::other)?;
            listener.accept().await.map(|(stream, peer)| (stream, Origin::of(peer.ip()), slot))
        };
        let accepted = tokio::select! {
            accepted = accepting => accepted,
            _ = &mut stopped => break,
        };
        match accepted {
            Ok((stream, origin, slot)) => {
                let (tls, router, ending) = (tls.clone(), router.clone(), ending.clone());
                tokio::spawn(async move {
                    let _slot = slot;
                    let _ = tokio::time::timeout(CONNECTION_TIME, open(stream, origin, tls, router, ending))
                        .await;
                });
            }
            Err(error) => {
                // Most likely out of file descriptors: wait until some are free.
                tracing::warn!(%error, "cannot accept a connection on the admin listener");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
    drop(listener);
    if slots.available_permits() < connections {
        // Who has just connected may still ask.
        tokio::time::sleep(LAST_REQUEST).await;
        let _ = end.send(true);
        let all = u32::try_from(connections).unwrap_or(u32::MAX);
        let _ = tokio::time::timeout(LAST_ANSWER, slots.acquire_many(all)).await;
    }
    Ok(())
}

/// Deletes uploaded files and files of jobs that are too old, and stops jobs whose owners may not do this any more, again and
/// again.
async fn tidy(console: Console) {
    for look in (0..TIDIED_EVERY).cycle() {
        console.stop_jobs_without_permission().await;
        if look == 0 {
            blocking(|| console.tidy());
        }
        tokio::time::sleep(LOOKED_EVERY).await;
    }
}

/// Serves a connection, after its handshake if there is TLS.
async fn open(
    stream: TcpStream,
    origin: Origin,
    tls: Option<(Arc<Tls>, Arc<HandshakeQueue>)>,
    router: axum::Router,
    ending: watch::Receiver<bool>,
) {
    let _ = stream.set_nodelay(true);
    let mut stream = Box::pin(TimeoutStream::new(stream));
    stream.as_mut().set_write_timeout_pinned(Some(WRITE_TIME));
    let Some((tls, queue)) = tls else { return serve(stream, origin, router, ending).await };
    // Without a handshake, there is nobody to answer.
    if let Ok(Ok(stream)) = tokio::time::timeout(HEAD_TIME, tls.accept(stream, &queue)).await {
        serve(stream, origin, router, ending).await;
    }
}

/// Serves a connection until it ends or, when the listener stops, to the end of its current request.
async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    origin: Origin,
    router: axum::Router,
    mut ending: watch::Receiver<bool>,
) {
    let service = TowerToHyperService::new(router);
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(origin);
        service.call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    tokio::select! {
        // If the connection broke, there is nobody to answer.
        _ = connection.as_mut() => return,
        _ = ending.wait_for(|is_ending| *is_ending) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = connection.await;
}
