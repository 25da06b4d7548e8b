//! What a node ships to the database: what it has counted, and its journal.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use contactd_core::Repeats;
use contactd_core::metrics::{Family, Measured, Measuring};
use contactd_core::store::StoreError;
use contactd_services::{AuditError, Lines, Services};

use crate::Node;
use crate::usage::CountedUsage;

/// The pause between two looks at the journal.
const LOOK_PAUSE: Duration = Duration::from_millis(500);
/// The pause between two looks at what was counted.
const USAGE_PAUSE: Duration = Duration::from_secs(1);
/// While there is more to ship, shipping takes about one part of this many of the time, so that lookups have the rest.
const SHARE_OF_TIME: u32 = 5;

/// The number of the last line of this node's journal; none if there is no journal.
pub type LastLine = Box<dyn Fn() -> Option<u64> + Send + Sync>;

/// Ships what a node has counted and its journal, in a thread of its own.
pub struct Shipping {
    work: Arc<Work>,
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

struct Work {
    usage: CountedUsage,
    services: Arc<Services>,
    last: LastLine,
    /// The last line that is in the database, as far as is known.
    shipped: AtomicU64,
    /// Since when lines cannot be shipped.
    stuck_since: Mutex<Option<Instant>>,
}

impl Shipping {
    /// Starts it.
    pub fn start(node: &Node, services: Arc<Services>, last: LastLine) -> std::io::Result<Self> {
        let work = Arc::new(Work {
            usage: CountedUsage::of(node),
            services,
            last,
            shipped: AtomicU64::new(0),
            stuck_since: Mutex::default(),
        });
        let (stop, stopped) = channel();
        let runtime = node.shared.settings.runtime.clone();
        let working = Arc::clone(&work);
        let thread = std::thread::Builder::new().name("shipping".to_owned()).spawn(move || {
            let (mut lines, mut pause) = (None, Duration::ZERO);
            let (reports, mut usage_due) = (Repeats::default(), Instant::now());
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(pause) {
                if Instant::now() >= usage_due {
                    usage_due = Instant::now() + USAGE_PAUSE;
                    if let Err(error) = runtime.block_on(working.usage.ship()) {
                        tracing::debug!(%error, "usage is stored in the database later");
                    }
                }
                let began = Instant::now();
                let shipped = runtime.block_on(working.ship(&mut lines));
                working.note_stuck(shipped.is_err());
                pause = match shipped {
                    Ok(true) => began.elapsed() * (SHARE_OF_TIME - 1),
                    Ok(false) => LOOK_PAUSE,
                    Err(error) => {
                        report(&error, &reports, began);
                        LOOK_PAUSE
                    }
                };
            }
        })?;
        Ok(Self { work, stop, thread })
    }

    /// Its metrics.
    pub fn measures(&self) -> Arc<dyn Measured> {
        Arc::<Work>::clone(&self.work)
    }

    /// Ships what is left, and stops. The journal is closed.
    pub async fn ship_last(self) {
        let _ = self.stop.send(());
        let _ = self.thread.join();
        if let Err(error) = self.work.usage.ship().await {
            tracing::warn!(%error, "the last usage is stored in the database when this node starts again");
        }
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
    fn stuck_since(&self) -> MutexGuard<'_, Option<Instant>> {
        self.stuck_since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_stuck(&self, is_stuck: bool) {
        let mut since = self.stuck_since();
        *since = is_stuck.then(|| since.unwrap_or_else(Instant::now));
    }

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
        let unshipped = Family::gauge("contactd_journal_unshipped_lines", help, waiting);
        let help = "For how long lines of this node's audit journal cannot be shipped to the database.";
        let stuck = self.stuck_since().map_or(0, |since| since.elapsed().as_secs());
        Box::pin(std::future::ready(vec![
            unshipped,
            Family::gauge("contactd_journal_stuck_seconds", help, stuck),
        ]))
    }
}
