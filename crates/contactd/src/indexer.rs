//! Brings the journal into its index, so that questions about it are answered quickly. Lookups never wait for this.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use contactd_core::store::AuditIndex;
use contactd_core::{Audit, AuditPosition, Clock, Timestamp};
use contactd_journal::{Chain, Entry, Journal, JournalError, Lines, Mark};
use contactd_store_sqlite::SqliteStore;

use crate::output;
use crate::sweeper::wait_for;

/// Lines that are indexed in one go.
const BATCH: usize = 5_000;
/// How long the index may be behind while little happens.
const PAUSE: Duration = Duration::from_secs(1);
/// While many lookups come, indexing takes one part in so many of the time.
const SHARE: u32 = 150;
/// More lines a second than this are many.
const MANY: u64 = 2_000;
/// How often old segments are looked at.
const TIDY: Duration = Duration::from_secs(60);
/// So many segments wait at most for a quiet moment in which to be compressed.
const UNCOMPRESSED: usize = 64;

/// The name under which the store remembers a line that had been indexed and is gone.
pub(crate) const LOST: &str = "audit_lost";

/// For commands: indexes everything that is in the journal now. Says so if lines that had been indexed are gone.
pub(crate) async fn catch_up(store: &SqliteStore, dir: &Path) -> anyhow::Result<()> {
    index_all(store, &mut Lines::after(dir, store.audit_position().await?)).await?;
    if store.fact(LOST)?.is_some() {
        output::words(format_args!(
            "contactd: lines that had been in the journal are gone or changed; `contactd audit verify` says which"
        ));
    }
    Ok(())
}

async fn index_all(store: &SqliteStore, lines: &mut Lines) -> anyhow::Result<()> {
    while index_some(store, lines).await? == BATCH {}
    Ok(())
}

/// The lines that say more than happened, from and through.
pub(crate) fn undisclosed(dir: &Path) -> anyhow::Result<Vec<(u64, u64)>> {
    let mut lines = Lines::after(dir, AuditPosition::default());
    let mut found = Vec::new();
    while let Some(line) = lines.read()? {
        if let Entry::Mark(Mark::Undisclosed { from, through }) = line.entry {
            found.push((from, through));
        }
    }
    Ok(found)
}

/// Indexes up to [`BATCH`] lines; says how many. `lines` is where the last one stopped.
async fn index_some(store: &SqliteStore, lines: &mut Lines) -> anyhow::Result<usize> {
    loop {
        let from = store.audit_position().await?;
        if lines.position() != from {
            *lines = Lines::after(lines.dir(), from);
        }
        let (mut records, mut undisclosed) = (Vec::new(), Vec::new());
        let (mut count, mut is_changed) = (0, false);
        while count < BATCH {
            match lines.read() {
                Ok(Some(line)) => {
                    count += 1;
                    match line.entry {
                        Entry::Request(record) => records.push(record),
                        Entry::Mark(Mark::Undisclosed { from, through }) => undisclosed.push((from, through)),
                        Entry::Mark(_) => {}
                    }
                }
                Ok(None) => break,
                Err(JournalError::Changed { .. }) => {
                    is_changed = true;
                    break;
                }
                Err(error) => return Err(error.into()),
            }
        }
        if is_changed {
            tracing::error!(
                "the audit journal is not as it was when it was indexed: lines were changed or removed, or a disk lost \
                 them. The index is made anew; `contactd audit verify` says more"
            );
            // What was there is remembered, so that `audit verify` misses it.
            store.remember(LOST, &format!("{}:{}", from.seq, Chain::from_bytes(from.chain)))?;
            let first_day = contactd_journal::begins(lines.dir())?.map_or(i64::MIN, Timestamp::day);
            store.reset_audit_index(first_day).await?;
            continue;
        }
        // If another process was faster, what it did is not done again.
        if lines.position() == from
            || store.index_audit(&records, &undisclosed, from, lines.position()).await?
        {
            return Ok(count);
        }
    }
}

/// The running indexer.
pub(crate) struct Indexer {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

/// What it works on.
struct Work {
    store: Arc<SqliteStore>,
    journal: Weak<Journal>,
    dir: PathBuf,
    clock: Arc<dyn Clock>,
    keep: Option<Duration>,
}

impl Indexer {
    /// Indexes in a thread of its own, and compresses and removes old segments.
    pub(crate) fn start(
        store: Arc<SqliteStore>,
        journal: &Arc<Journal>,
        dir: PathBuf,
        clock: Arc<dyn Clock>,
        keep: Option<Duration>,
    ) -> anyhow::Result<Self> {
        let (stop, stopped) = channel();
        let work = Work { store, journal: Arc::downgrade(journal), dir, clock, keep };
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        let thread = std::thread::Builder::new().name("indexer".to_owned()).spawn(move || {
            // On Linux this is about the thread: it comes last on whichever core it is.
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
        let mut at = Lines::after(&self.dir, AuditPosition::default());
        while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(pause) {
            let lines = self.journal.upgrade().map_or(0, |journal| journal.health().lines);
            let seconds = last_look.elapsed().as_secs_f64().max(0.001);
            let is_busy = lines.saturating_sub(last_lines) as f64 / seconds > MANY as f64;
            (last_lines, last_look) = (lines, Instant::now());
            let began = Instant::now();
            let indexed = index_some(&self.store, &mut at).await;
            pause = match indexed {
                Ok(count) if count < BATCH => PAUSE,
                Ok(_) if is_busy => began.elapsed() * SHARE,
                Ok(_) => Duration::ZERO,
                Err(error) => {
                    tracing::error!(%error, "cannot index the audit journal; trying again");
                    10 * PAUSE
                }
            };
            if last_tidy.is_none_or(|last| last.elapsed() > TIDY) {
                last_tidy = Some(Instant::now());
                if let Err(error) = self.tidy(&mut at, is_busy).await {
                    tracing::error!(%error, "cannot tidy the audit journal");
                }
            }
        }
    }

    /// Compresses segments that are closed, and removes those whose time is over.
    async fn tidy(&self, at: &mut Lines, is_busy: bool) -> anyhow::Result<()> {
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
        // Only what is indexed goes, and only once the journal says so itself.
        index_all(&self.store, at).await?;
        let ticket = journal.mark(now, &Mark::Retired { through });
        let until = Instant::now() + contactd_journal::PATIENCE;
        while ticket.fate() == contactd_core::Fate::Waiting && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
        if ticket.fate() == contactd_core::Fate::Written {
            contactd_journal::remove(&self.dir, &old)?;
            self.store.forget_audit(through).await?;
            tracing::info!(through, "removed audit lines whose time was over");
        }
        Ok(())
    }
}
