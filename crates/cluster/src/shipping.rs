//! What a node ships to the database: what it has counted, and its journal.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use contactd_core::Repeats;
use contactd_core::metrics::{Family, Measured, Measuring};
use contactd_core::store::StoreError;
use contactd_journal::Lines;
use contactd_services::{AuditError, Services};

use crate::Node;
use crate::usage::UsageShipping;

/// The pause between two looks at the journal.
const LOOK_PAUSE: Duration = Duration::from_millis(500);
/// While there is more to ship, shipping takes about one part of this many of the time, so that lookups have the rest.
const SHARE_OF_TIME: u32 = 5;

/// The number of the last line of this node's journal; none if there is no journal.
pub type LastLine = Box<dyn Fn() -> Option<u64> + Send + Sync>;

/// Ships what a node has counted and its journal, in threads of their own.
pub struct Shipping {
    usage: UsageShipping,
    work: Arc<Work>,
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

struct Work {
    services: Arc<Services>,
    last: LastLine,
    /// The last line that is in the database, as far as is known.
    shipped: AtomicU64,
}

impl Shipping {
    /// Starts it.
    pub fn start(node: &Node, services: Arc<Services>, last: LastLine) -> std::io::Result<Self> {
        let usage = UsageShipping::start(node)?;
        let work = Arc::new(Work { services, last, shipped: AtomicU64::new(0) });
        let (stop, stopped) = channel();
        let runtime = node.shared.settings.runtime.clone();
        let working = Arc::clone(&work);
        let thread = std::thread::Builder::new().name("shipping".to_owned()).spawn(move || {
            let (mut lines, mut pause) = (None, Duration::ZERO);
            let reports = Repeats::default();
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(pause) {
                let began = Instant::now();
                pause = match runtime.block_on(working.ship(&mut lines)) {
                    Ok(true) => began.elapsed() * (SHARE_OF_TIME - 1),
                    Ok(false) => LOOK_PAUSE,
                    Err(error) => {
                        report(&error, &reports, began);
                        LOOK_PAUSE
                    }
                };
            }
        })?;
        Ok(Self { usage, work, stop, thread })
    }

    /// Its metrics.
    pub fn measures(&self) -> Arc<dyn Measured> {
        Arc::<Work>::clone(&self.work)
    }

    /// Ships what is left, and stops. The journal is closed.
    pub async fn ship_last(self) {
        let _ = self.stop.send(());
        let _ = self.thread.join();
        self.usage.ship_last().await;
        let mut lines = None;
        loop {
            match self.work.ship(&mut lines).await {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    tracing::warn!(%error, "the rest of the audit journal is shipped to the database when this node starts again");
                    return;
                }
            }
        }
    }
}

/// A node says itself, once, that the database cannot be reached.
fn report(error: &AuditError, reports: &Repeats, now: Instant) {
    if matches!(error, AuditError::Store(StoreError::Unavailable(_) | StoreError::OutcomeUnknown(_))) {
        tracing::debug!(%error, "the audit journal is shipped when the database is back");
    } else if reports.is_new(&error.to_string(), now) {
        tracing::error!(%error, "cannot ship the audit journal to the database; trying again");
    }
}

impl Work {
    /// Ships some lines. Returns whether there may be more.
    async fn ship(&self, lines: &mut Option<Lines>) -> Result<bool, AuditError> {
        let Some(shipped) = self.services.audits.ship_some(lines).await? else { return Ok(false) };
        self.shipped.store(shipped.through, Ordering::Relaxed);
        Ok(shipped.has_more)
    }
}

impl Measured for Work {
    fn families(&self) -> Measuring<'_> {
        let waiting = (self.last)().unwrap_or(0).saturating_sub(self.shipped.load(Ordering::Relaxed));
        let help = "How many lines of this node's audit journal are not in the database yet.";
        Box::pin(std::future::ready(vec![Family::gauge("contactd_journal_unshipped_lines", help, waiting)]))
    }
}
