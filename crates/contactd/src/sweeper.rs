//! The sweeper: a thread of a running server that removes details that have expired or are too old. Expired details are never
//! served, whether they are removed yet or not.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use contactd_core::store::{Aged, StoreError, Swept};
use contactd_core::{Actor, Cancel, unobserved, work_in_background};
use contactd_services::Changed;
use contactd_services::{Clearing, ImportError, Services, SweepReport};
use parking_lot::Mutex;
use tokio::runtime::Handle;

/// Details that are older than their source allows are removed in one of this many rounds.
pub(crate) const EVERY: u32 = 60;

/// How long to wait at shutdown for a thread that works in atomic steps.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// Waits for such a thread. If it takes longer, it ends with the process; its current step is undone, and nothing is lost.
pub(crate) fn wait_for(thread: JoinHandle<()>) {
    let until = Instant::now() + STOP_TIMEOUT;
    while !thread.is_finished() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(1));
    }
    if thread.is_finished() {
        let _ = thread.join();
    }
}

/// What the sweeper is told.
enum Told {
    Every(Duration),
    Stop,
}

/// How often a running sweeper sweeps.
#[derive(Clone)]
pub(crate) struct Pace {
    told: Sender<Told>,
    pause: Arc<Mutex<Duration>>,
}

impl Pace {
    pub(crate) fn set(&self, pause: Duration) {
        *self.pause.lock() = pause;
        // If the sweeper has ended, the server is stopping.
        let _ = self.told.send(Told::Every(pause));
    }

    pub(crate) fn get(&self) -> Duration {
        *self.pause.lock()
    }
}

pub(crate) struct Sweeper {
    pace: Pace,
    cancel: Cancel,
    thread: JoinHandle<()>,
}

impl Sweeper {
    /// Sweeps after every `pause`.
    pub(crate) fn start(services: Arc<Services>, pause: Duration) -> anyhow::Result<Self> {
        let (told, listening) = channel();
        let pace = Pace { told, pause: Arc::new(Mutex::new(pause)) };
        let cancel = Cancel::default();
        let cancelled = cancel.clone();
        let runtime = Handle::current();
        let thread = std::thread::Builder::new().name("sweeper".to_owned()).spawn(move || {
            work_in_background();
            // A predecessor that was killed may have removed something without clearing the logs.
            let mut clearing = Clearing::Always;
            let mut pause = pause;
            for round in (0..EVERY).cycle() {
                loop {
                    match listening.recv_timeout(pause) {
                        Ok(Told::Every(new)) => pause = new,
                        Ok(Told::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                        Err(RecvTimeoutError::Timeout) => break,
                    }
                }
                // Finding details that are too old reads everything, so it is not done in every round.
                let aged = if round == 0 { Aged::Policies } else { Aged::Not };
                let actor = Actor::service();
                let sweep = services.imports.sweep(&actor, aged, clearing, &unobserved, &cancelled);
                let are_clear = report(runtime.block_on(sweep));
                clearing = if are_clear { Clearing::IfRemoved } else { Clearing::Always };
            }
        })?;
        Ok(Self { pace, cancel, thread })
    }

    pub(crate) fn pace(&self) -> Pace {
        self.pace.clone()
    }

    pub(crate) fn finish(self) {
        self.cancel.cancel();
        let _ = self.pace.told.send(Told::Stop);
        wait_for(self.thread);
    }
}

/// Logs what a sweep did. Returns whether the store's logs are clear of what was removed.
fn report(swept: Result<Changed<SweepReport>, ImportError>) -> bool {
    match swept.map(|changed| changed.done) {
        Ok(SweepReport { swept: Swept { expired, aged, former }, logs_are_clear }) => {
            if expired + aged > 0 {
                tracing::info!(expired, aged, "removed details that had expired or were too old");
            }
            if former > 0 {
                tracing::info!(former, "removed details that were kept for undo");
            }
            if !logs_are_clear {
                tracing::warn!("a reader keeps removed details in the write-ahead log; trying again");
            }
            logs_are_clear
        }
        Err(ImportError::Cancelled) => true,
        // Another node sweeps, or the database is away, which this node says itself.
        Err(error @ ImportError::Store(StoreError::Busy | StoreError::Unavailable(_))) => {
            tracing::debug!(%error, "expired details are removed later");
            false
        }
        Err(error) => {
            tracing::warn!(%error, "cannot remove expired details now; trying again");
            false
        }
    }
}
