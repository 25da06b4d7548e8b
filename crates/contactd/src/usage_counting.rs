//! After a kill: counting what the last server did not store of the use of quotas, while this one serves. Tokens with a quota receive
//! nothing until it is done.

use std::fmt::Display;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;
use std::time::Duration;

use contactd_core::{AccessTables, Callers, Cancel, HitsBefore};
use contactd_services::{Services, Uncounted};
use tokio::runtime::Handle;

use crate::engine::Files;
use crate::on_record::ActionRecorder;
use crate::refresher::Reports;
use crate::sweeper::wait_for;

/// The pause before something is tried again.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// What there is to count, and who has to know it.
pub(crate) struct UsageCounting {
    pub(crate) uncounted: Uncounted,
    /// Dropped once the index is read: then lines may be added to it.
    pub(crate) index_is_read: Sender<()>,
    pub(crate) services: Arc<Services>,
    pub(crate) recorder: Arc<ActionRecorder>,
    pub(crate) callers: Arc<Callers>,
    pub(crate) access_tables: Arc<AccessTables<Files>>,
}

/// The counting, in a thread of its own.
pub(crate) struct RunningCounting {
    cancel: Cancel,
    thread: JoinHandle<()>,
}

impl UsageCounting {
    pub(crate) fn start(self) -> anyhow::Result<RunningCounting> {
        let (cancel, runtime) = (Cancel::default(), Handle::current());
        let cancelled = cancel.clone();
        let thread = std::thread::Builder::new()
            .name("usage-count".to_owned())
            .spawn(move || runtime.block_on(self.count(&cancelled)))?;
        Ok(RunningCounting { cancel, thread })
    }

    async fn count(self, cancel: &Cancel) {
        let (audits, mut uncounted) = (&self.services.audits, self.uncounted);
        if !until_done(cancel, async || audits.read_indexed(&mut uncounted).await).await {
            return;
        }
        drop(self.index_is_read);
        let count = async || {
            // What is signed can be read. If that fails, lines are missing, and counting says so.
            let _ = self.recorder.sign();
            audits.count(&mut uncounted, cancel).await
        };
        if !until_done(cancel, count).await {
            return;
        }
        self.callers.set_hits_before(HitsBefore::Stored);
        if until_done(cancel, async || self.access_tables.refresh().await).await {
            self.callers.set_hits_before(HitsBefore::InForce);
        }
    }
}

impl RunningCounting {
    /// Stops counting. If it is not done, the next server begins again.
    pub(crate) fn finish(self) {
        self.cancel.cancel();
        wait_for(self.thread);
    }
}

/// Tries something until it succeeds. False if the server stops before that.
async fn until_done<E: Display>(cancel: &Cancel, mut attempt: impl AsyncFnMut() -> Result<(), E>) -> bool {
    let reports = Reports::default();
    loop {
        match attempt().await {
            Err(_) if cancel.is_cancelled() => return false,
            done => {
                if reports.add(done, "cannot count what tokens with a quota used").is_some() {
                    return true;
                }
            }
        }
        std::thread::sleep(RETRY_PAUSE);
    }
}
