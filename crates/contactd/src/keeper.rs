//! The keeper: one thread of a running server that takes up what commands changed and writes
//! down what tokens did. A second one keeps the write-ahead logs short, which can take a while.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use contactd_core::store::{StoreError, Suppressions, Tokens, Usage};
use contactd_core::{Callers, Clock, SuppressionList};
use contactd_store_sqlite::SqliteStore;

/// How often other processes' changes are looked for; they also announce them.
const POLL: Duration = Duration::from_millis(200);
/// How often usage is written down, and how often the logs are looked at.
const FLUSH: Duration = Duration::from_secs(1);

/// What the keeper is asked to do.
pub(crate) enum Request {
    /// Take up everything that is committed; tell true when it is in force.
    Refresh(Sender<bool>),
    /// Write down what is left, and end.
    Finish,
}

/// What the keeper keeps.
pub(crate) struct Keeper {
    pub(crate) store: Arc<SqliteStore>,
    pub(crate) callers: Arc<Callers>,
    pub(crate) suppressions: Arc<SuppressionList>,
    pub(crate) clock: Arc<dyn Clock>,
}

/// The running keeper.
pub(crate) struct Running {
    pub(crate) requests: Sender<Request>,
    thread: JoinHandle<()>,
}

impl Running {
    /// Writes down what is left and ends.
    pub(crate) fn finish(self) {
        let _ = self.requests.send(Request::Finish);
        let _ = self.thread.join();
    }
}

impl Keeper {
    /// Takes up what is committed, then goes on doing so in a thread of its own.
    pub(crate) async fn start(self) -> anyhow::Result<Running> {
        self.refresh().await?;
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        let (requests, receiver) = channel();
        let store = Arc::downgrade(&self.store);
        std::thread::Builder::new().name("log-keeper".to_owned()).spawn(move || {
            while let Some(store) = store.upgrade() {
                report(store.checkpoint(), "cannot shorten a write-ahead log");
                drop(store);
                std::thread::sleep(FLUSH);
            }
        })?;
        let thread = std::thread::Builder::new()
            .name("keeper".to_owned())
            .spawn(move || self.run(&runtime, &receiver))?;
        Ok(Running { requests, thread })
    }

    fn run(&self, runtime: &tokio::runtime::Runtime, requests: &Receiver<Request>) {
        let mut last_flush = Instant::now();
        // Set until what others changed has been taken up, however often that fails.
        let mut is_stale = false;
        loop {
            let asked = match requests.recv_timeout(POLL) {
                Ok(Request::Refresh(done)) => Some(done),
                Err(RecvTimeoutError::Timeout) => None,
                Ok(Request::Finish) | Err(RecvTimeoutError::Disconnected) => break,
            };
            match self.store.changes() {
                Ok(changes) => is_stale |= changes.main,
                Err(error) => tracing::error!(%error, "cannot look for changes"),
            }
            if is_stale || asked.is_some() {
                is_stale = !report(runtime.block_on(self.refresh()), "cannot take up a change");
            }
            if let Some(done) = asked {
                let _ = done.send(!is_stale);
            }
            if last_flush.elapsed() >= FLUSH {
                last_flush = Instant::now();
                report(runtime.block_on(self.flush_usage()), "cannot write down usage");
            }
        }
        report(runtime.block_on(self.flush_usage()), "cannot write down usage");
    }

    /// When this returns, every lookup that begins sees what is committed now.
    async fn refresh(&self) -> anyhow::Result<()> {
        // Neither waits for the other: a revocation is in force though a key of the opt-outs is missing.
        let suppressions = self.refresh_suppressions().await;
        let tokens = self.refresh_tokens().await;
        self.store.renew_readers();
        suppressions.and(tokens)
    }

    async fn refresh_suppressions(&self) -> anyhow::Result<()> {
        Ok(self.suppressions.replace(self.store.list_suppressions().await?)?)
    }

    async fn refresh_tokens(&self) -> anyhow::Result<()> {
        let now = self.clock.now();
        // A token that has ended leaves the table, and what it did with it: write that down first.
        self.flush_usage().await?;
        let mut tokens = Vec::new();
        for (hash, token) in self.store.list_tokens().await? {
            let used = match self.callers.quota_of(&token) {
                Some(quota) => self.store.hits_since(&token.id, quota.period.days(now).0).await?,
                None => 0,
            };
            tokens.push((hash, token, used));
        }
        self.callers.replace(tokens, now);
        Ok(())
    }

    async fn flush_usage(&self) -> Result<(), StoreError> {
        let usage = self.callers.take_usage();
        if usage.is_empty() {
            return Ok(());
        }
        let recorded = self.store.record_usage(&usage, self.clock.now()).await;
        if recorded.is_err() {
            self.callers.return_usage(&usage);
        }
        recorded
    }
}

/// Logs a failure. Whether there was none.
fn report<E: std::fmt::Display>(result: Result<(), E>, what: &str) -> bool {
    if let Err(error) = &result {
        tracing::error!(%error, "{what}");
    }
    result.is_ok()
}
