//! Keeps the index of the journal up to date in a running server, and compresses and removes old segments. Lookups never wait
//! for this.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use contactd_core::services::Services;
use contactd_core::{Audit, Clock, Fate, JournalLines};
use contactd_journal::{Journal, Mark};

use crate::engine::Store;
use crate::sweeper::wait_for;

/// How far the index may lag behind when there are few lookups.
const PAUSE: Duration = Duration::from_secs(1);
/// When there are many lookups, indexing uses about 1/`SHARE` of the time.
const SHARE: u32 = 150;
/// More lines per second than this count as many.
const MANY: u64 = 2_000;
/// How often old segments are checked.
const TIDY: Duration = Duration::from_secs(60);
/// If more segments than this wait to be compressed, they are compressed even under load.
const UNCOMPRESSED: usize = 64;

/// The running indexer.
pub(crate) struct Indexer {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

/// What the indexer works on.
struct Work {
    services: Arc<Services<Store>>,
    journal: Weak<Journal>,
    dir: PathBuf,
    clock: Arc<dyn Clock>,
    keep: Option<Duration>,
}

impl Indexer {
    /// Indexes in its own thread, and compresses and removes old segments.
    pub(crate) fn start(
        services: Arc<Services<Store>>,
        journal: &Arc<Journal>,
        dir: PathBuf,
        clock: Arc<dyn Clock>,
        keep: Option<Duration>,
    ) -> anyhow::Result<Self> {
        let (stop, stopped) = channel();
        let work = Work { services, journal: Arc::downgrade(journal), dir, clock, keep };
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        let thread = std::thread::Builder::new().name("indexer".to_owned()).spawn(move || {
            // On Linux this applies to the thread only: it gets the lowest priority on every core.
            let _ = rustix::process::nice(19);
            runtime.block_on(work.run(&stopped));
        })?;
        Ok(Self { stop, thread })
    }

    pub(crate) fn finish(self) {
        let _ = self.stop.send(());
        wait_for(self.thread);
    }
}

impl Work {
    async fn run(&self, stopped: &Receiver<()>) {
        let (mut last_lines, mut last_look) = (0, Instant::now());
        let mut last_tidy: Option<Instant> = None;
        let mut pause = Duration::ZERO;
        let mut at = self.services.audits.lines();
        while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(pause) {
            let lines = self.journal.upgrade().map_or(0, |journal| journal.health().lines);
            let seconds = last_look.elapsed().as_secs_f64().max(0.001);
            let is_busy = lines.saturating_sub(last_lines) as f64 / seconds > MANY as f64;
            (last_lines, last_look) = (lines, Instant::now());
            let began = Instant::now();
            pause = match self.services.audits.index_some(&mut at).await {
                Ok(false) => PAUSE,
                Ok(true) if is_busy => began.elapsed() * SHARE,
                Ok(true) => Duration::ZERO,
                Err(error) => {
                    tracing::error!(%error, "cannot index the audit journal; trying again");
                    10 * PAUSE
                }
            };
            if last_tidy.is_none_or(|last| last.elapsed() > TIDY) {
                last_tidy = Some(Instant::now());
                if let Err(error) = self.tidy(&mut at, is_busy).await {
                    tracing::error!(%error, "cannot compress or remove old segments of the audit journal");
                }
            }
        }
    }

    /// Compresses closed segments, and removes those that are older than the operator keeps them.
    async fn tidy(&self, at: &mut Box<dyn JournalLines>, is_busy: bool) -> anyhow::Result<()> {
        let Some(journal) = self.journal.upgrade() else { return Ok(()) };
        let plain = contactd_journal::segments(&self.dir)?.iter().filter(|s| !s.is_compressed).count();
        if !is_busy || plain > UNCOMPRESSED {
            contactd_journal::compress_closed(&self.dir, journal.open_segment())?;
        }
        let Some(keep) = self.keep else { return Ok(()) };
        let now = self.clock.now();
        let Some((through, old)) = contactd_journal::outdated(&self.dir, now.minus(keep))? else {
            return Ok(());
        };
        // Lines are removed only after they are indexed and the journal has recorded the removal.
        while self.services.audits.index_some(at).await? {}
        let ticket = journal.mark(now, &Mark::Retired { through });
        let until = Instant::now() + contactd_journal::PATIENCE;
        while ticket.fate() == Fate::Waiting && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
        if ticket.fate() == Fate::Written {
            contactd_journal::remove(&self.dir, &old)?;
            self.services.audits.forget(through).await?;
            tracing::info!(through, "removed audit lines that are older than audit.keep");
        }
        Ok(())
    }
}
