//! Keeps the index of the journal up to date in a running server, and compresses and removes old segments. Lookups never wait
//! for this.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use contactd_core::store::StoreError;
use contactd_core::{Audit, Clock, Fate, OnRecord, Repeats, work_in_background};
use contactd_journal::Lines;
use contactd_journal::{Journal, Mark, Verifier};
use contactd_services::{AuditError, Services};
use parking_lot::Mutex;
use tokio::runtime::Handle;

use crate::on_record::ActionRecorder;
use crate::sweeper::wait_for;

/// How far the index may lag behind when there are few lookups.
const LONGEST_LAG: Duration = Duration::from_secs(1);
/// When there are many lookups, indexing uses about 1/`SHARE_OF_TIME` of the time.
const SHARE_OF_TIME: u32 = 150;
/// More lines per second than this count as many.
const MANY_LINES_PER_SECOND: u64 = 2_000;
/// How often old segments are checked.
const TIDY_EVERY: Duration = Duration::from_secs(60);
/// How often entries are collected whose command was killed before it asked for that.
pub(crate) const COLLECT_EVERY: Duration = Duration::from_secs(10);
/// The same in a cluster, where commands on machines without a node wait for it.
pub(crate) const COLLECT_EVERY_OF_NODE: Duration = Duration::from_millis(500);
/// If more segments than this wait to be compressed, they are compressed even under load.
const MOST_UNCOMPRESSED: usize = 64;

/// The running indexer.
pub(crate) struct Indexer {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

/// How long the journal's lines are kept; for ever if `None`. Can change while the indexer runs.
pub(crate) type Keep = Arc<Mutex<Option<Duration>>>;

/// What the indexer works on.
pub(crate) struct IndexerWork {
    pub(crate) services: Arc<Services>,
    pub(crate) journal: Weak<Journal>,
    pub(crate) recorder: Arc<ActionRecorder>,
    pub(crate) dir: PathBuf,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) keep: Keep,
    /// How often entries are collected.
    pub(crate) collects_every: Duration,
}

impl Indexer {
    /// Indexes in its own thread, and compresses and removes old segments, once `index_is_read` ends.
    pub(crate) fn start(work: IndexerWork, index_is_read: Receiver<()>) -> anyhow::Result<Self> {
        let (stop, stopped) = channel();
        let runtime = Handle::current();
        let thread = std::thread::Builder::new().name("indexer".to_owned()).spawn(move || {
            work_in_background();
            let _ = index_is_read.recv();
            runtime.block_on(work.run(&stopped));
        })?;
        Ok(Self { stop, thread })
    }

    pub(crate) fn finish(self) {
        let _ = self.stop.send(());
        wait_for(self.thread);
    }
}

/// Whether the store cannot be reached. A node says so itself, once.
fn is_away(error: &AuditError) -> bool {
    matches!(error, AuditError::Store(StoreError::Unavailable(_)))
}

impl IndexerWork {
    async fn run(&self, stopped: &Receiver<()>) {
        let (mut last_written, mut last_look) = (0, Instant::now());
        let (mut last_tidy, mut last_collect): (Option<Instant>, Option<Instant>) = (None, None);
        let mut pause = Duration::ZERO;
        let mut lines = None;
        let reports = Repeats::default();
        while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(pause) {
            let written = self.journal.upgrade().map_or(0, |journal| journal.health().lines);
            let seconds = last_look.elapsed().as_secs_f64().max(0.001);
            let is_busy =
                written.saturating_sub(last_written) as f64 / seconds > MANY_LINES_PER_SECOND as f64;
            (last_written, last_look) = (written, Instant::now());
            let began = Instant::now();
            pause = match self.services.audits.index_some(&mut lines).await {
                Ok(false) => LONGEST_LAG.min(self.collects_every),
                Ok(true) if is_busy => began.elapsed() * SHARE_OF_TIME,
                Ok(true) => Duration::ZERO,
                Err(error) if is_away(&error) => {
                    tracing::debug!(%error, "the audit journal is indexed when the database is back");
                    LONGEST_LAG
                }
                Err(error) => {
                    tracing::error!(%error, "cannot index the audit journal; trying again");
                    10 * LONGEST_LAG
                }
            };
            if last_collect.is_none_or(|last| last.elapsed() > self.collects_every) {
                last_collect = Some(Instant::now());
                if let Err(error) = self.recorder.collect(&[]).await
                    && reports.is_new(&error.to_string(), began)
                {
                    tracing::warn!(%error, "changes are not on record yet: their entries wait for the audit journal");
                }
            }
            if last_tidy.is_none_or(|last| last.elapsed() > TIDY_EVERY) {
                last_tidy = Some(Instant::now());
                if let Err(error) = self.tidy(&mut lines, is_busy).await {
                    tracing::error!(%error, "cannot compress or remove old segments of the audit journal");
                }
            }
        }
    }

    /// Compresses closed segments, and removes those that are older than the operator keeps them.
    async fn tidy(&self, lines: &mut Option<Lines>, is_busy: bool) -> anyhow::Result<()> {
        let Some(journal) = self.journal.upgrade() else { return Ok(()) };
        let plain = contactd_journal::segments(&self.dir)?.iter().filter(|s| !s.is_compressed).count();
        let roots = self.services.audits.trusted().await?;
        let verifier = Verifier { roots, ..Verifier::default() };
        if !is_busy || plain > MOST_UNCOMPRESSED {
            contactd_journal::compress_closed(&self.dir, journal.open_segment(), &verifier)?;
        }
        let Some(keep) = *self.keep.lock() else { return Ok(()) };
        let (now, before) = (self.clock.now(), self.services.audits.removal_time().await?.minus(keep));
        self.services.audits.remove_old_copies(before).await?;
        let Some(old) = contactd_journal::outdated(&self.dir, before, &verifier)? else {
            return Ok(());
        };
        if !self.services.audits.is_shipped(old.through).await? {
            return Ok(());
        }
        // Lines are removed only after they are shipped and indexed, and the journal has recorded the removal, on disk and signed.
        while self.services.audits.index_some(lines).await? {}
        let (through, chain) = (old.through, old.chain);
        let ticket = journal.mark(now, &Mark::Retired { through, chain });
        if journal.sign() && ticket.fate() == Fate::Written {
            contactd_journal::remove(&self.dir, &old)?;
            journal.mark(now, &Mark::Removed { through });
            self.services.audits.forget(through).await?;
            self.services.audits.remove_unnamed_lists(before).await?;
            tracing::info!(through, "removed audit lines that are older than audit.keep");
        }
        Ok(())
    }
}
