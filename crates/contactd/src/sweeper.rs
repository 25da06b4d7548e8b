//! The sweeper: a thread of a running server that removes details that have expired or are too old. Expired details are never
//! served, whether they are removed yet or not.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use contactd_core::services::Services;
use contactd_core::store::{Aged, Swept};
use contactd_core::{Actor, unobserved};

use crate::engine::Store;

/// Details that are older than their source allows are removed in one of this many rounds.
const EVERY: u32 = 60;

/// How long to wait at shutdown for a thread that works in atomic steps.
const STOP_PATIENCE: Duration = Duration::from_secs(5);

/// Waits for such a thread. If it takes longer, it ends with the process; its current step is undone, and nothing is lost.
pub(crate) fn wait_for(thread: JoinHandle<()>) {
    let until = Instant::now() + STOP_PATIENCE;
    while !thread.is_finished() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(1));
    }
    if thread.is_finished() {
        let _ = thread.join();
    }
}

pub(crate) struct Sweeper {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Sweeper {
    /// Sweeps after every `pause`.
    pub(crate) fn start(services: Arc<Services<Store>>, pause: Duration) -> anyhow::Result<Self> {
        let (stop, stopped) = channel();
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        let thread = std::thread::Builder::new().name("sweeper".to_owned()).spawn(move || {
            let _ = rustix::process::nice(19);
            for round in (0..EVERY).cycle() {
                let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(pause) else { return };
                // Finding details that are too old reads everything, so it is not done in every round.
                let aged = if round == 0 { Aged::Policies } else { Aged::Not };
                report(runtime.block_on(services.imports.sweep(&Actor::service(), aged, &unobserved)));
            }
        })?;
        Ok(Self { stop, thread })
    }

    pub(crate) fn finish(self) {
        let _ = self.stop.send(());
        wait_for(self.thread);
    }
}

type SweepResult = Result<contactd_core::Changed<(Swept, bool)>, contactd_core::services::ImportError>;

fn report(swept: SweepResult) {
    match swept.map(|changed| changed.done) {
        Ok((Swept { expired: 0, aged: 0 }, _)) => {}
        Ok((Swept { expired, aged }, is_flushed)) => {
            tracing::info!(expired, aged, "removed details that had expired or were too old");
            if !is_flushed {
                tracing::warn!(
                    "the removed details are still in the write-ahead log, because a reader is using it"
                );
            }
        }
        Err(error) => tracing::warn!(%error, "cannot remove expired details now; trying again"),
    }
}
