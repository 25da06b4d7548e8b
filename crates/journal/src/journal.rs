//! The journal of a running server, open for appending.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use contactd_core::{
    AdminEntry, Audit, AuditEvent, AuditHealth, Clock, Fate, RefusedKind, RootKey, Ticket, Timestamp,
    work_in_background,
};

use crate::JournalError;
use crate::epochs::Epochs;
use crate::file::failed;
use crate::format::Common;
use crate::line::Mark;
use crate::locked_dir::LockedDir;
use crate::settings::{JournalSettings, OpenedBy, Sync};
use crate::shared::Shared;
use crate::sync::{EARLY, LATE};
use crate::unread::Unread;
use crate::writer::Writer;
use crate::{WRITE_TIMEOUT, format, recover};

/// How long an administrative action waits for the disk: longer than a lookup, because a command or a person can.
const SYNC_TIMEOUT: Duration = Duration::from_secs(10);

/// A journal that is open for appending. Only one can be open per directory.
pub struct Journal {
    shared: Arc<Shared>,
    node: String,
    common: Common,
    root: RootKey,
    writer: Option<JoinHandle<()>>,
    syncers: Vec<JoinHandle<()>>,
    epochs: Option<JoinHandle<()>>,
    check: Option<JoinHandle<()>>,
}

impl Journal {
    /// Opens the journal and continues where the last server stopped. If that server was killed and left an
    /// unfinished line, or somebody changed the journal since, the journal records this. A server reads the lines before the last
    /// checkpoint after this returns.
    pub fn open(settings: JournalSettings, clock: Arc<dyn Clock>) -> Result<Self, JournalError> {
        let dir = &settings.dir;
        let locked = LockedDir::open(dir)?;
        let mut end = recover::end(dir, &settings.keys, clock.now(), settings.opened_by)?;
        // Otherwise something else was read.
        locked.check_place().map_err(failed("cannot read", dir))?;
        let anchor = settings.keys.open_anchor()?;
        let shared = Arc::new(Shared::new(locked));
        let (node, common) = (settings.node.clone(), Common::new(&settings.node, &settings.digest_key));
        let start = |name: &str, run: Box<dyn FnOnce() + Send>| {
            std::thread::Builder::new()
                .name(name.to_owned())
                .spawn(run)
                .map_err(failed("cannot start a thread for", dir))
        };
        let mut syncers = Vec::new();
        if settings.sync == Sync::Os {
            for (name, delay) in [("journal-sync", EARLY), ("journal-late", LATE)] {
                let shared = Arc::clone(&shared);
                syncers.push(start(
                    name,
                    Box::new(move || {
                        if delay == EARLY {
                            work_in_background();
                        }
                        shared.sync.run(delay);
                    }),
                )?);
            }
        }
        let root = end.keys.root;
        let epochs = match settings.opened_by {
            OpenedBy::Server => {
                let epochs = Epochs {
                    keys: settings.keys.clone(),
                    current: end.keys.clone(),
                    length: settings.epoch,
                    clock: Arc::clone(&clock),
                    shared: Arc::clone(&shared),
                };
                Some(start("journal-epochs", Box::new(move || epochs.run()))?)
            }
            OpenedBy::Command => None,
        };
        let check = end.unread.take().map(|unread| {
            let shared = Arc::clone(&shared);
            start("journal-check", Box::new(move || check(unread, &shared)))
        });
        let check = check.transpose()?;
        let now = clock.now();
        let mut writer = Writer::new(settings.clone(), clock, end, anchor, Arc::clone(&shared));
        let writer = Some(start("journal", Box::new(move || writer.run()))?);
        let journal = Self { shared, node, common, root, writer, syncers, epochs, check };
        if settings.opened_by == OpenedBy::Server {
            journal.mark(now, &Mark::Started);
        }
        Ok(journal)
    }

    /// The public key with which it began.
    pub fn root(&self) -> RootKey {
        self.root
    }

    /// The number of the last line that was written.
    pub fn last(&self) -> u64 {
        self.shared.last.load(Ordering::Relaxed)
    }

    /// Records an administrative action. When this returns true, its line is on disk.
    pub fn record(&self, entry: &AdminEntry) -> bool {
        let mut fields = Vec::new();
        if format::admin(&mut fields, &self.node, entry).is_err() {
            return false;
        }
        let ticket = self.shared.push(&fields);
        self.shared.queue.flush();
        wait_until(|| ticket.fate() != Fate::Waiting) && ticket.is_written() && self.settle()
    }

    /// Waits until everything that was written so far is on disk; false if that takes too long.
    fn settle(&self) -> bool {
        let last = self.last();
        wait_for_up_to(SYNC_TIMEOUT, || self.shared.sync.synced_through() >= last)
    }

    /// Signs everything that was written so far; false if that is not possible now.
    pub fn sign(&self) -> bool {
        self.shared.must_sign.store(true, Ordering::Release);
        self.shared.queue.poke();
        wait_until(|| !self.shared.must_sign.load(Ordering::Acquire)) && self.settle()
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

    fn take_back(&self, ticket: &Ticket) {
        if let Some(line) = ticket.number() {
            self.shared.take_back(line);
        }
    }

    fn count_refused(&self, refused: RefusedKind) {
        self.shared.count_refused(refused);
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
        wait_for(self.check.take());
        self.shared.rotation.close();
        wait_for(self.epochs.take());
        self.shared.sync.close();
        self.syncers.drain(..).for_each(|syncer| wait_for(Some(syncer)));
    }
}

/// Checks the lines that were not read when the journal was opened.
fn check(unread: Unread, shared: &Shared) {
    work_in_background();
    match unread.what_is_wrong(|| shared.queue.is_closed()) {
        Ok(None) => {}
        Ok(Some(what)) => {
            tracing::error!(what, "the audit journal is not as it was left; a new segment begins");
            shared.note_broken(what);
        }
        Err(error) => tracing::warn!(%error, "cannot check the last segment of the audit journal"),
    }
}

/// Waits until something is so, but at most [`WRITE_TIMEOUT`]. Returns whether it is.
fn wait_until(is_so: impl Fn() -> bool) -> bool {
    wait_for_up_to(WRITE_TIMEOUT, is_so)
}

fn wait_for_up_to(patience: Duration, is_so: impl Fn() -> bool) -> bool {
    let until = Instant::now() + patience;
    while !is_so() {
        if Instant::now() > until {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

/// Waits for a thread to end, but at most [`WRITE_TIMEOUT`]. A hung thread is abandoned.
fn wait_for(thread: Option<JoinHandle<()>>) {
    if let Some(thread) = thread
        && wait_until(|| thread.is_finished())
    {
        let _ = thread.join();
    }
}
