//! The journal as a server has it: open, and taking lines.

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
use crate::settings::{Settings, Sync};
use crate::shared::Shared;
use crate::sync::Syncer;
use crate::writer::Writer;
use crate::{ChainKey, PATIENCE, format, recover};

/// A journal that is open for appending. There must be only one for a directory.
pub struct Journal {
    shared: Arc<Shared>,
    node: String,
    common: Common,
    writer: Option<JoinHandle<()>>,
    syncer: Option<JoinHandle<()>>,
    /// Locked for as long as this lives: another writer would cut off what it does not know.
    _lock: File,
}

impl Journal {
    /// Opens the journal, which begins where the last server stopped. What a killed one left unfinished is cut off and
    /// reported.
    pub fn open(settings: Settings, key: ChainKey, clock: Arc<dyn Clock>) -> Result<Self, JournalError> {
        let dir = &settings.dir;
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(dir)
            .map_err(failed("cannot make the directory", dir))?;
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

    /// The number of the first line of the segment that is written to; zero before there is one.
    pub fn open_segment(&self) -> u64 {
        self.shared.open.load(Ordering::Relaxed)
    }

    /// Says something about the journal itself, in the journal.
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
    /// Writes what is left and syncs it.
    fn drop(&mut self) {
        self.shared.queue.close();
        wait_for(self.writer.take());
        self.shared.sync.close();
        wait_for(self.syncer.take());
    }
}

/// Waits for a thread to end; one that hangs is left to itself.
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
