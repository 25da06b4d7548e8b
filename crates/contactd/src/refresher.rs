//! The refresher: one thread of a running server that applies what commands changed and records what tokens did. A second one
//! maintains the store's files, which can take a while.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use contactd_core::store::{ChangeNumbers, Changes, LocalRead, Maintenance};
use contactd_core::{AccessTables, Clock, ClockWatch, Repeats, Timestamp};
use tokio::runtime::Handle;

use crate::control_server::ControlRequest;
use crate::engine::Files;

/// How often the refresher looks for changes by other processes, in case it received no announcement.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How often usage is recorded, and how often the files are maintained.
const FLUSH_EVERY: Duration = Duration::from_secs(1);

/// What the refresher works on.
pub(crate) struct Refresher {
    pub(crate) store: Arc<Files>,
    pub(crate) access_tables: Arc<AccessTables<Files>>,
    pub(crate) clock: Arc<dyn Clock>,
}

/// The running refresher.
pub(crate) struct RunningRefresher {
    pub(crate) requests: Sender<ControlRequest>,
    thread: JoinHandle<bool>,
}

impl RunningRefresher {
    /// Records the remaining usage and stops. Returns whether all usage is recorded.
    pub(crate) fn finish(self) -> bool {
        let _ = self.requests.send(ControlRequest::Finish);
        self.thread.join().unwrap_or(false)
    }
}

impl Refresher {
    /// Applies what is committed, then keeps applying changes in its own thread.
    pub(crate) async fn start(self) -> anyhow::Result<RunningRefresher> {
        let mut seen = self.store.changes().await?;
        self.access_tables.refresh().await?;
        let runtime = Handle::current();
        let (requests, receiver) = channel();
        self.start_maintenance()?;
        let thread = std::thread::Builder::new()
            .name("refresher".to_owned())
            .spawn(move || runtime.block_on(self.run(&receiver, &mut seen)))?;
        Ok(RunningRefresher { requests, thread })
    }

    fn start_maintenance(&self) -> anyhow::Result<()> {
        let runtime = Handle::current();
        let store = Arc::downgrade(&self.store);
        std::thread::Builder::new().name("maintenance".to_owned()).spawn(move || {
            // It may write much. Lookups come first, if the system allows it.
            let _ = rustix::process::nice(19);
            let reports = Reports::default();
            while let Some(store) = store.upgrade() {
                reports.add(runtime.block_on(store.tidy()), "cannot maintain the store's files");
                drop(store);
                std::thread::sleep(FLUSH_EVERY);
            }
        })?;
        Ok(())
    }

    async fn run(&self, requests: &Receiver<ControlRequest>, seen: &mut ChangeNumbers) -> bool {
        let mut last_flush = Instant::now();
        // Stays set until the changes of other processes have been applied, even if that fails several times.
        let mut is_stale = false;
        let reports = Reports::default();
        let mut watch = ClockWatch::start(self.clock.now(), Instant::now());
        loop {
            let asked = match requests.recv_timeout(LOOK_EVERY) {
                Ok(ControlRequest::Refresh(done)) => Some(done),
                Err(RecvTimeoutError::Timeout) => None,
                Ok(ControlRequest::Finish) | Err(RecvTimeoutError::Disconnected) => break,
            };
            report_jump(&mut watch, self.clock.now());
            match reports.add(self.store.changes().await, "cannot look for changes") {
                Some(changes) => {
                    is_stale |= changes.access != seen.access;
                    if changes.details != seen.details {
                        self.store.renew_all();
                    }
                    *seen = changes;
                }
                // What cannot be looked for may be there.
                None => self.store.renew_all(),
            }
            if is_stale || asked.is_some() {
                is_stale = reports.add(self.access_tables.refresh().await, "cannot apply a change").is_none();
            }
            if let Some(done) = asked {
                let _ = done.send(!is_stale);
            }
            if last_flush.elapsed() >= FLUSH_EVERY {
                last_flush = Instant::now();
                reports.add(self.access_tables.flush_usage().await, "cannot record usage");
            }
        }
        reports.add(self.access_tables.flush_usage().await, "cannot record usage").is_some()
    }
}

/// Logs failures: the first at once, the same again only now and then with a count.
#[derive(Default)]
pub(crate) struct Reports(Repeats);

impl Reports {
    pub(crate) fn add<T, E: std::fmt::Display>(&self, result: Result<T, E>, what: &str) -> Option<T> {
        let now = Instant::now();
        for (fault, times) in self.0.due(now) {
            tracing::error!(times, fault, "failed again");
        }
        match result {
            Ok(done) => Some(done),
            Err(error) => {
                if self.0.is_new(&format!("{what}: {error}"), now) {
                    tracing::error!(%error, "{what}; trying again");
                }
                None
            }
        }
    }
}

/// Logs that the clock was set.
fn report_jump(watch: &mut ClockWatch, now: Timestamp) {
    let Some(jump) = watch.jump(now, Instant::now()) else { return };
    let seconds = jump.by.as_secs();
    if jump.is_back {
        tracing::warn!(
            "the system clock went back by {seconds} s: tokens and details end too late if it is wrong now. Check that the time is right and \
             synchronised"
        );
    } else {
        tracing::warn!(
            "the system clock went forward by {seconds} s: tokens and details end too early if it is wrong now, and the next sweep removes \
             expired details for good (in a cluster only if they have expired by the database's clock too). Check that the time is right \
             and synchronised"
        );
    }
}
