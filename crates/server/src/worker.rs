//! A worker: one thread, one event loop, its own view of the store.

use std::cell::RefCell;
use std::io;
use std::net::TcpStream as StdTcpStream;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use contactd_core::store::LocalRead;
use contactd_tls::HandshakeQueue;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use crate::App;
use crate::client_address::Peer;
use crate::client_connections::Reception;
use crate::connection::{self, Exchange};
use crate::slots::ConnectionSlot;
use crate::stream::Stream;
use crate::tls;
use crate::turn::{Turn, after_io};
use crate::worker_clock::WorkerClock;

/// How often deadlines are checked and the store's snapshot is released.
const TICK: Duration = Duration::from_millis(100);

/// How many connections that are past their deadline are ended before requests are served again.
const ENDED_TOGETHER: usize = 2;

/// An accepted connection for a worker, with its connection slot.
pub(crate) struct Accepted {
    pub(crate) stream: StdTcpStream,
    pub(crate) slot: ConnectionSlot,
    pub(crate) peer: Peer,
    pub(crate) reception: Reception,
}

/// What the accepting task tells a worker.
enum Message {
    Serve(Accepted),
    /// Close the connection that has waited longest for its client: another client needs its slot.
    GiveWay,
}

/// The accepting task's handle to a worker.
pub(crate) struct Worker {
    sender: UnboundedSender<Message>,
    load: Arc<AtomicUsize>,
    /// Since when the connection has waited for its client that has waited longest.
    longest_wait: Arc<LongestWait>,
    thread: thread::JoinHandle<()>,
}

impl Worker {
    pub(crate) fn start<D: LocalRead>(number: usize, app: Arc<App<D>>) -> io::Result<Self> {
        let (sender, receiver) = unbounded_channel();
        let load = Arc::new(AtomicUsize::new(0));
        let longest_wait = Arc::new(LongestWait::default());
        let (thread_load, thread_wait) = (Arc::clone(&load), Arc::clone(&longest_wait));
        // The runtime of tasks that stay on their thread has to be made there.
        let (started, has_started) = std::sync::mpsc::channel();
        let thread = thread::Builder::new().name(format!("worker-{number}")).spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
            match runtime {
                Ok(runtime) => {
                    let _ = started.send(Ok(()));
                    runtime.block_on(run(number, app, receiver, thread_load, thread_wait));
                }
                Err(error) => drop(started.send(Err(error))),
            }
        })?;
        has_started.recv().map_err(io::Error::other)??;
        Ok(Self { sender, load, longest_wait, thread })
    }

    /// How many connections it has.
    pub(crate) fn load(&self) -> usize {
        self.load.load(Ordering::Relaxed)
    }

    pub(crate) fn give(&self, accepted: Accepted) {
        self.load.fetch_add(1, Ordering::Relaxed);
        // This cannot fail: the worker runs until this sender is dropped.
        let _ = self.sender.send(Message::Serve(accepted));
    }

    /// How long the connection has waited for its client that has waited longest, as of the last tick with all slots taken;
    /// none if no connection can give way.
    pub(crate) fn longest_wait(&self) -> Option<Duration> {
        self.longest_wait.get()
    }

    /// Closes the connection that has waited longest for its client, so that another client gets its slot.
    pub(crate) fn give_way(&self) {
        let _ = self.sender.send(Message::GiveWay);
    }

    /// Tells the worker to end after it has finished its connections. Returns its thread.
    pub(crate) fn finish(self) -> thread::JoinHandle<()> {
        self.thread
    }
}

type Exchanges = RefCell<Vec<Weak<Exchange>>>;

/// What the tasks of a worker share.
struct Shared<D> {
    app: Arc<App<D>>,
    clock: Rc<WorkerClock>,
    exchanges: Exchanges,
    turn: Rc<Turn>,
    handshakes: Rc<HandshakeQueue>,
    load: Arc<AtomicUsize>,
}

async fn run<D: LocalRead>(
    number: usize,
    app: Arc<App<D>>,
    mut receiver: UnboundedReceiver<Message>,
    load: Arc<AtomicUsize>,
    longest_wait: Arc<LongestWait>,
) {
    let began = Instant::now();
    let clock = Rc::new(WorkerClock::new(app.clock.now()));
    let turn = Rc::new(Turn::new(Rc::clone(&clock), app.now().settings.audit_patience));
    let (ending, recording) = (Rc::clone(&turn), Arc::clone(&app));
    tokio::task::spawn_local(async move { ending.run(|| recording.lookups.flush_audit()).await });
    let shared = Shared { app, clock, exchanges: RefCell::default(), turn, handshakes: Rc::default(), load };
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut is_accepting = true;
    let mut ending: Option<JoinHandle<()>> = None;
    while is_accepting || !shared.exchanges.borrow().is_empty() {
        tokio::select! {
            message = receiver.recv(), if is_accepting => match message {
                Some(Message::Serve(accepted)) => shared.begin(accepted),
                Some(Message::GiveWay) => give_way(&shared.exchanges),
                None => is_accepting = false,
            },
            _ = tick.tick() => {
                shared.clock.set(began.elapsed(), shared.app.clock.now());
                shared.app.beat(number);
                shared.app.lookups.renew();
                shared.turn.tick();
                for (fault, times) in shared.app.faults.due(Instant::now()) {
                    tracing::error!(times, fault, "the same fault again");
                }
                if ending.as_ref().is_none_or(JoinHandle::is_finished) {
                    let is_stopping = shared.app.is_stopping();
                    let due = due(&shared.exchanges, is_stopping);
                    ending = (!due.is_empty()).then(|| tokio::task::spawn_local(end(due, is_stopping)));
                }
                // Looking at all connections once more is needed only if one may have to give way.
                if shared.app.slots.are_all_taken(shared.app.now().settings.max_connections) {
                    longest_wait.set(shared.clock.elapsed(), &shared.exchanges);
                }
            }
        }
    }
}

impl<D: LocalRead> Shared<D> {
    fn begin(&self, accepted: Accepted) {
        let Accepted { stream, slot, peer, reception } = accepted;
        let exchange = Exchange::new(Rc::clone(&self.clock), &self.app.now().settings);
        self.exchanges.borrow_mut().push(Rc::downgrade(&exchange));
        let counted = OpenConnection::begin(&self.app, &self.load, slot);
        let (app, turn) = (Arc::clone(&self.app), Rc::clone(&self.turn));
        let Ok(stream) = TcpStream::from_std(stream) else { return };
        // Two kinds of task, so that a plain connection takes no memory for TLS.
        match app.tls.clone() {
            None => tokio::task::spawn_local(async move {
                let _counted = counted;
                receive(app, stream, peer, reception, exchange, turn).await;
            }),
            Some(tls) => {
                let handshakes = Rc::clone(&self.handshakes);
                tokio::task::spawn_local(async move {
                    let _counted = counted;
                    // What a handshake needs is freed after it.
                    let encrypted = Box::pin(tls::handshake(&tls, stream, &handshakes, &exchange)).await;
                    if let Some(stream) = encrypted {
                        receive(app, stream, peer, reception, exchange, turn).await;
                    }
                })
            }
        };
    }
}

/// Serves a connection, or refuses it if its address has too many.
async fn receive<D: LocalRead>(
    app: Arc<App<D>>,
    stream: impl Stream,
    peer: Peer,
    reception: Reception,
    exchange: Rc<Exchange>,
    turn: Rc<Turn>,
) {
    match reception {
        Reception::Served(open) => {
            connection::serve(app, stream, peer, exchange, turn).await;
            drop(open);
        }
        Reception::Refused(refused) => {
            connection::refuse(app, stream, exchange).await;
            drop(refused);
        }
        Reception::Closed => {}
    }
}

/// The connections that are past their deadline.
fn due(exchanges: &Exchanges, stopping: bool) -> Vec<Weak<Exchange>> {
    let mut due = Vec::new();
    exchanges.borrow_mut().retain(|weak| match weak.upgrade() {
        Some(exchange) => {
            if exchange.is_due(stopping) {
                due.push(Weak::clone(weak));
            }
            true
        }
        None => false,
    });
    due
}

/// Ends connections, a few at a time: closing one with full buffers takes long, and requests are served in between.
async fn end(due: Vec<Weak<Exchange>>, stopping: bool) {
    for few in due.chunks(ENDED_TOGETHER) {
        few.iter().filter_map(Weak::upgrade).for_each(|exchange| exchange.end_if_due(stopping));
        after_io().await;
    }
}

/// Closes the connection that has waited longest for its client.
fn give_way(exchanges: &Exchanges) {
    let exchanges = exchanges.borrow();
    let waiting = exchanges.iter().filter_map(Weak::upgrade).filter_map(|exchange| {
        let since = exchange.waits_since()?;
        Some((since, exchange))
    });
    if let Some((_, longest)) = waiting.min_by_key(|(since, _)| *since) {
        longest.give_way();
    }
}

/// How long the connection has waited for its client that has waited longest, in milliseconds; zero if none can give way.
#[derive(Default)]
struct LongestWait(AtomicU64);

impl LongestWait {
    fn set(&self, now: Duration, exchanges: &Exchanges) {
        let waiting = exchanges.borrow();
        let since =
            waiting.iter().filter_map(Weak::upgrade).filter_map(|exchange| exchange.waits_since()).min();
        let millis = since.map_or(0, |since| now.saturating_sub(since).as_millis().max(1));
        self.0.store(u64::try_from(millis).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn get(&self) -> Option<Duration> {
        Some(self.0.load(Ordering::Relaxed)).filter(|&millis| millis > 0).map(Duration::from_millis)
    }
}

/// Counts an open connection until it is dropped, however the connection ends.
struct OpenConnection<D> {
    app: Arc<App<D>>,
    load: Arc<AtomicUsize>,
    _slot: ConnectionSlot,
}

impl<D> OpenConnection<D> {
    fn begin(app: &Arc<App<D>>, load: &Arc<AtomicUsize>, slot: ConnectionSlot) -> Self {
        app.connections.fetch_add(1, Ordering::Relaxed);
        Self { app: Arc::clone(app), load: Arc::clone(load), _slot: slot }
    }
}

impl<D> Drop for OpenConnection<D> {
    fn drop(&mut self) {
        self.app.connections.fetch_sub(1, Ordering::Relaxed);
        self.load.fetch_sub(1, Ordering::Relaxed);
    }
}
