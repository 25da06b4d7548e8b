//! Puts administrative actions on record: directly in a server, through `control.sock` from a command or, if no server is
//! running, by opening the journal for a moment.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use contactd_cluster::does_a_node_run;
use contactd_core::metrics::{Family, Measured, Measuring};
use contactd_core::store::{Outbox, StoreError};
use contactd_core::{AdminEntry, BootClock, Clock, NotRecorded, OnRecord, Recording, blocking};
use contactd_journal::JournalError;
use contactd_journal::{Journal, JournalSettings, KeyDir, OpenedBy, Sync};
use contactd_services::Services;
use contactd_store_postgres::ANOTHER_RUNS;

use crate::config::DEFAULT_SEGMENT;
use crate::control::{self, ControlAnswer};
use crate::data_dir::DataDir;
use crate::engine::Database;
use crate::opening::Opened;

/// How long to wait for another process that has the journal open, or for the journal of a server that starts.
const JOURNAL_OPEN_TIMEOUT: Duration = Duration::from_secs(5);
const RETRY_PAUSE: Duration = Duration::from_millis(20);
/// How long to wait for an entry that another node puts into its journal: until it is signed and shipped.
const SHOWN_TIMEOUT: Duration = Duration::from_secs(5);
/// Between two looks at what nodes have shipped.
const LOOK_PAUSE: Duration = Duration::from_millis(100);
/// Why something is not on record.
const NOT_IN_TIME: &str =
    "no node has taken it into its journal within 5 seconds; `contactd node list` shows which nodes run";
const NOT_SHOWN: &str = "its entry is gone from the outbox, and no signed line of a journal has it: look for rules and triggers \
     on that table, and run `contactd audit verify`";
const NO_NODE: &str =
    "no node runs that could take it into its journal; `contactd node list` shows the nodes";

/// The journal of this process.
pub(crate) enum OwnJournal {
    On(Weak<Journal>),
    Off,
}

/// Puts actions on record.
pub(crate) struct ActionRecorder {
    dir: DataDir,
    node: String,
    clock: Arc<dyn Clock>,
    /// In a server: its journal, once it is open.
    own: OnceLock<OwnJournal>,
    is_server: bool,
    /// The database of a cluster, if there is no node on this machine: then a node puts entries into its journal.
    elsewhere: Option<Arc<Database>>,
    /// The database of a cluster, if there is a node on this machine.
    of_node: Option<Arc<Database>>,
    services: OnceLock<Weak<Services>>,
    /// Checks of import files that were recorded.
    checks: AtomicU64,
    /// Only one at a time moves entries out of the outbox.
    turn: tokio::sync::Mutex<()>,
}

impl ActionRecorder {
    pub(crate) fn new(opened: &Opened, is_server: bool) -> Arc<Self> {
        Arc::new(Self {
            dir: opened.dir.clone(),
            node: opened.node().to_owned(),
            clock: Arc::<dyn BootClock>::clone(&opened.clock),
            own: OnceLock::new(),
            is_server,
            elsewhere: opened.database.clone().filter(|_| opened.files.is_none()),
            of_node: opened.database.clone().filter(|_| opened.files.is_some()),
            services: OnceLock::new(),
            checks: AtomicU64::new(0),
            turn: tokio::sync::Mutex::default(),
        })
    }

    /// The services, which know the outbox.
    pub(crate) fn attach(&self, services: &Arc<Services>) {
        let _ = self.services.set(Arc::downgrade(services));
    }

    /// In a server: its journal is open, or is off.
    pub(crate) fn use_journal(&self, own: OwnJournal) {
        let _ = self.own.set(own);
    }

    /// The server's journal. Waits for it while the server starts.
    fn own_journal(&self) -> Result<Arc<Journal>, NotRecorded> {
        let until = Instant::now() + JOURNAL_OPEN_TIMEOUT;
        loop {
            match self.own.get() {
                Some(OwnJournal::Off) => return Err(NotRecorded::Off),
                Some(OwnJournal::On(journal)) => {
                    return journal.upgrade().ok_or_else(|| unavailable("the server is stopping"));
                }
                None if Instant::now() > until => return Err(unavailable("the journal is not open yet")),
                None => std::thread::sleep(RETRY_PAUSE),
            }
        }
    }

    /// The database of a cluster.
    fn database(&self) -> Option<&Arc<Database>> {
        self.elsewhere.as_ref().or(self.of_node.as_ref())
    }

    /// Ships what a command has put into the journal of a node that does not run: it may never run, and the other machines of the
    /// cluster trust only what is shipped. What is not shipped now is shipped by the next command or server.
    async fn ship(&self) -> Result<(), NotRecorded> {
        let (Some(_), Some(services)) = (&self.of_node, self.services()) else { return Ok(()) };
        let mut lines = None;
        loop {
            match services.audits.ship_some(&mut lines).await {
                Ok(Some(shipped)) if shipped.has_more => {}
                Ok(_) => return Ok(()),
                Err(error) => {
                    let why =
                        format!("it is in the journal of this machine, which cannot be shipped now: {error}");
                    return Err(unavailable(&why));
                }
            }
        }
    }

    /// Signs everything that is in the journal so far.
    pub(crate) fn sign(&self) -> Result<(), NotRecorded> {
        if self.is_server {
            return written(self.own_journal()?.sign());
        }
        // Without a server, whoever had it open last has signed it.
        recorded(control::ask(&self.dir, control::SIGN))
    }

    async fn record_entry(&self, entry: &AdminEntry) -> Result<(), NotRecorded> {
        // The journal of a copied data directory is shipped nowhere. While the database is away, nobody can tell.
        if let Some(database) = &self.of_node
            && matches!(database.runs_elsewhere().await, Ok(true))
        {
            return Err(unavailable(ANOTHER_RUNS));
        }
        if self.is_server {
            let journal = blocking(|| self.own_journal())?;
            return written(blocking(|| journal.record(entry) && journal.sign()));
        }
        if let Some(database) = &self.elsewhere {
            return self.record_by_a_node(database, entry).await;
        }
        let text = serde_json::to_string(entry).map_err(|error| unavailable(&error.to_string()))?;
        match blocking(|| control::ask(&self.dir, &format!("{} {text}", control::RECORD))) {
            Ok(ControlAnswer::NoServer) => {
                let recorded = written(self.open_briefly().await?.record(entry));
                recorded.and(self.ship().await)
            }
            answer => recorded(answer),
        }
    }

    /// Has a node put an entry into its journal. If no signed line has it in time, the entry is taken back.
    async fn record_by_a_node(&self, database: &Database, entry: &AdminEntry) -> Result<(), NotRecorded> {
        if !does_a_node_run(database).await.map_err(not_now)? {
            return Err(unavailable(NO_NODE));
        }
        database.add_entry(entry).await.map_err(not_now)?;
        let shown = self.shown(&[&entry.entry]).await;
        if shown.is_err() {
            database.remove_entries(std::slice::from_ref(&entry.entry)).await.map_err(not_now)?;
        }
        shown
    }

    async fn collect_entries(&self, stored: &[&str]) -> Result<(), NotRecorded> {
        if self.is_server {
            let journal = blocking(|| self.own_journal())?;
            return self.collect_into(&journal, stored).await;
        }
        if let Some(database) = &self.elsewhere {
            let waiting = database.list_entries().await.map_err(not_now)?;
            if !waiting.is_empty() && !does_a_node_run(database).await.map_err(not_now)? {
                return Err(unavailable(NO_NODE));
            }
            let waiting: Vec<&str> = waiting.iter().map(|entry| entry.entry.as_str()).collect();
            return self.shown(if stored.is_empty() { &waiting } else { stored }).await;
        }
        if stored.is_empty()
            && let Some(services) = self.services()
            && matches!(services.audits.has_entries().await, Ok(false))
        {
            return Ok(());
        }
        match blocking(|| control::ask(&self.dir, &[&[control::COLLECT], stored].concat().join(" "))) {
            Ok(ControlAnswer::NoServer) => {
                let journal = self.open_briefly().await?;
                let collected = self.collect_into(&journal, stored).await;
                drop(journal);
                collected.and(self.ship().await)
            }
            answer => recorded(answer),
        }
    }

    /// Moves the entries that wait into a journal, and makes sure that signed lines have those that were `stored`.
    async fn collect_into(&self, journal: &Journal, stored: &[&str]) -> Result<(), NotRecorded> {
        let Some(services) = self.services() else { return Ok(()) };
        let record = |entry: &AdminEntry| {
            let is_recorded = blocking(|| journal.record(entry) && journal.sign());
            if is_recorded {
                self.count(entry);
            }
            is_recorded
        };
        let collected = {
            let _turn = self.turn.lock().await;
            services.audits.collect(record).await
        };
        let all = collected.map_err(|error| unavailable(&error.to_string())).and_then(written);
        if stored.is_empty() {
            return all;
        }
        // These may be in signed lines, even if others could not be written or the outbox could not be changed.
        self.shown(stored).await.or_else(|why| all.and(Err(why)))
    }

    /// Makes sure that signed lines have these entries. Another node may have taken them: then this waits until it has shipped them.
    async fn shown(&self, entries: &[&str]) -> Result<(), NotRecorded> {
        let Some(services) = self.services() else { return Err(unavailable("the server is stopping")) };
        let until = Instant::now() + SHOWN_TIMEOUT;
        loop {
            let missing = services.audits.missing(entries).await;
            let missing = missing.map_err(|error| unavailable(&error.to_string()))?;
            let Some(first) = missing.first() else { return Ok(()) };
            match self.database() {
                Some(database) if Instant::now() < until => database.sleep(LOOK_PAUSE).await,
                Some(database) if database.has_entry(first).await.map_err(not_now)? => {
                    return Err(unavailable(NOT_IN_TIME));
                }
                _ => return Err(unavailable(NOT_SHOWN)),
            }
        }
    }

    fn count(&self, entry: &AdminEntry) {
        if entry.operation == AdminEntry::IMPORT_CHECK {
            self.checks.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Opens the journal for a moment. Dropping it signs what was written.
    async fn open_briefly(&self) -> Result<Journal, NotRecorded> {
        let journal = blocking(|| open_patiently(&self.settings(), &self.clock));
        let journal = journal.map_err(|error| unavailable(&error.to_string()))?;
        if let Some(services) = self.services() {
            let remembered = services.audits.remember_root(journal.root()).await;
            remembered.map_err(|error| unavailable(&error.to_string()))?;
        }
        Ok(journal)
    }

    /// The settings of a journal that is opened by a command. A server changes some of them.
    pub(crate) fn settings(&self) -> JournalSettings {
        brief_settings(&self.dir, &self.node)
    }

    fn services(&self) -> Option<Arc<Services>> {
        self.services.get().and_then(Weak::upgrade)
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn not_now(error: StoreError) -> NotRecorded {
    unavailable(&error.to_string())
}

/// The settings with which a command opens the journal of a data directory for a moment.
pub(crate) fn brief_settings(dir: &DataDir, node: &str) -> JournalSettings {
    JournalSettings {
        dir: dir.audit(),
        sync: Sync::Disk,
        segment_bytes: DEFAULT_SEGMENT,
        node: node.to_owned(),
        digest_key: String::new(),
        keys: KeyDir::new(&dir.keys()),
        epoch: Duration::MAX,
        opened_by: OpenedBy::Command,
    }
}

/// Opens a journal, and waits a moment if another process has it open.
pub(crate) fn open_patiently(
    settings: &JournalSettings,
    clock: &Arc<dyn Clock>,
) -> Result<Journal, JournalError> {
    let until = Instant::now() + JOURNAL_OPEN_TIMEOUT;
    loop {
        match Journal::open(settings.clone(), Arc::clone(clock)) {
            Err(JournalError::InUse) if Instant::now() < until => std::thread::sleep(RETRY_PAUSE),
            opened => return opened,
        }
    }
}

impl OnRecord for ActionRecorder {
    fn record<'a>(&'a self, entry: &'a AdminEntry) -> Recording<'a> {
        Box::pin(async {
            self.record_entry(entry).await?;
            self.count(entry);
            Ok(())
        })
    }

    fn collect<'a>(&'a self, stored: &'a [&'a str]) -> Recording<'a> {
        Box::pin(self.collect_entries(stored))
    }
}

impl Measured for ActionRecorder {
    fn families(&self) -> Measuring<'_> {
        let help = "Checks of import files that were put on record.";
        let checks = self.checks.load(Ordering::Relaxed);
        Box::pin(async move { vec![Family::counter("contactd_import_checks_total", help, checks)] })
    }
}

fn recorded(answer: std::io::Result<ControlAnswer>) -> Result<(), NotRecorded> {
    match answer {
        Ok(ControlAnswer::Done | ControlAnswer::NoServer) => Ok(()),
        Ok(ControlAnswer::Off) => Err(NotRecorded::Off),
        Ok(ControlAnswer::Failed) => {
            Err(unavailable("the running server cannot write it, or shows no line of it; look at its log"))
        }
        Err(error) => {
            Err(unavailable(&format!("the running server did not answer on control.sock ({error})")))
        }
    }
}

fn unavailable(what: &str) -> NotRecorded {
    NotRecorded::Unavailable(what.to_owned())
}

fn written(is_written: bool) -> Result<(), NotRecorded> {
    if is_written {
        return Ok(());
    }
    Err(unavailable("it cannot be written; look at the log of the server, and at the disk"))
}
