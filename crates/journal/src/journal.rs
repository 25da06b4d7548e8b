//! The journal of a running server, open for appending.

use std::cell::RefCell;
use std::fs::{DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use contactd_core::{Audit, AuditEvent, AuditHealth, Clock, JournalError, Ticket, Timestamp};

use crate::file::{failed, sync_dir};
use crate::format::Common;
use crate::line::Mark;
use crate::queue::Queue;
use crate::settings::{JournalSettings, Sync};
use crate::shared::Shared;
use crate::sync::Syncer;
use crate::writer::Writer;
use crate::{ChainKey, PATIENCE, format, recover};

/// A journal that is open for appending. Only one can be open per directory.
pub struct Journal {
    shared: Arc<Shared>,
    node: String,
    common: Common,
    writer: Option<JoinHandle<()>>,
    syncer: Option<JoinHandle<()>>,
    /// Locked as long as this exists, because a second writer would truncate lines that it did not write.
    _lock: File,
}

impl Journal {
    /// Opens the journal and continues where the last server stopped. If that server was killed and left an
    /// unfinished line, the line is cut off and the journal records this.
    pub fn open(
        settings: JournalSettings,
        key: ChainKey,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, JournalError> {
        let dir = &settings.dir;
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(dir)
            .map_err(failed("cannot create the directory", dir))?;
        let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
        sync_dir(parent.unwrap_or(Path::new("."))).map_err(failed("cannot sync", dir))?;
        let lock = File::open(dir).map_err(failed("cannot open", dir))?;
        if lock.try_lock().is_err() {
            return Err(JournalError::InUse);
        }
        let end = recover::end(dir)?;
        let shared = Arc::new(Shared {
            queue: Queue::new(),
            sync: Syncer::default(),
            is_down: AtomicBool::new(false),
            written: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            unsaid: AtomicU64::new(0),
            open: AtomicU64::new(0),
        });
        let (node, common) = (settings.node.clone(), Common::new(&settings.node, &settings.digest_key));
        let start = |name: &str, run: Box<dyn FnOnce() + Send>| {
            std::thread::Builder::new()
                .name(name.to_owned())
                .spawn(run)
                .map_err(failed("cannot start a thread for", dir))
        };
        let syncer = match settings.sync {
            Sync::Os => {
                let shared = Arc::clone(&shared);
                Some(start("journal-sync", Box::new(move || shared.sync.run()))?)
            }
            Sync::Disk => None,
        };
        let mut writer = Writer::new(settings.clone(), key, clock, end, Arc::clone(&shared));
        let writer = Some(start("journal", Box::new(move || writer.run()))?);
        Ok(Self { shared, node, common, writer, syncer, _lock: lock })
    }

    /// The number of the first line of the open segment; zero if there is none yet.
    pub fn open_segment(&self) -> u64 {
        self.shared.open.load(Ordering::Relaxed)
    }

    /// Appends a line about the journal itself, and flushes.
    pub fn mark(&self, at: Timestamp, mark: &Mark) -> Ticket {
        let mut fields = Vec::new();
        format::mark(&mut fields, &self.node, at, mark);
        let ticket = self.shared.push(&fields);
        self.shared.queue.flush();
        ticket
    }
}

impl Audit for Journal {
    fn append(&self, event: &AuditEvent<'_>) -> Ticket {
        thread_local! {
            static FIELDS: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
        }
        FIELDS.with_borrow_mut(|fields| {
            fields.clear();
            format::event(fields, &self.common, event);
            self.shared.push(fields)
        })
    }

    fn flush(&self) {
        self.shared.queue.flush();
    }

    fn health(&self) -> AuditHealth {
        AuditHealth {
            is_up: !self.shared.is_down.load(Ordering::Relaxed)
                && !self.shared.queue.is_hung()
                && !self.shared.sync.is_hung(),
            lines: self.shared.written.load(Ordering::Relaxed),
            lost: self.shared.lost.load(Ordering::Relaxed),
        }
    }
}

impl Drop for Journal {
    /// Writes and syncs the remaining lines.
    fn drop(&mut self) {
        self.shared.queue.close();
        wait_for(self.writer.take());
        self.shared.sync.close();
        wait_for(self.syncer.take());
    }
}

/// Waits for a thread to end, but at most [`PATIENCE`]. A hung thread is abandoned.
fn wait_for(thread: Option<JoinHandle<()>>) {
    let until = Instant::now() + PATIENCE;
    if let Some(thread) = thread {
        while !thread.is_finished() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        if thread.is_finished() {
            let _ = thread.join();
        }
    }
}
