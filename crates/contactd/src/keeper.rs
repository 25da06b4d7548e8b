//! The keeper: one thread of a running server that takes up what commands changed, writes
//! down what tokens did, and keeps the write-ahead logs short.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use contactd_core::store::{StoreError, Suppressions, Tokens, Usage};
use contactd_core::{Callers, Clock, SuppressionList};
use contactd_store_sqlite::SqliteStore;

/// How often other processes' changes are looked for; they also announce them.
const POLL: Duration = Duration::from_millis(200);
/// How often usage is written down.
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
        let thread = std::thread::Builder::new()
            .name("keeper".to_owned())
            .spawn(move || self.run(&runtime, &receiver))?;
        Ok(Running { requests, thread })
    }

    fn run(&self, runtime: &tokio::runtime::Runtime, requests: &Receiver<Request>) {
        let mut last_flush = Instant::now();
        loop {
            match requests.recv_timeout(POLL) {
                Ok(Request::Refresh(done)) => {
                    let refreshed = report(runtime.block_on(self.refresh()), "cannot take up a change");
                    let _ = done.send(refreshed);
                }
                Err(RecvTimeoutError::Timeout) => {
                    report(runtime.block_on(self.refresh_if_changed()), "cannot look for changes");
                }
                Ok(Request::Finish) | Err(RecvTimeoutError::Disconnected) => break,
            }
            if last_flush.elapsed() >= FLUSH {
                last_flush = Instant::now();
                report(runtime.block_on(self.flush_usage()), "cannot write down usage");
                report(self.store.checkpoint(), "cannot shorten the write-ahead log");
            }
        }
        report(runtime.block_on(self.flush_usage()), "cannot write down usage");
    }

    async fn refresh_if_changed(&self) -> Result<(), StoreError> {
        if self.store.changes()?.main { self.refresh().await } else { Ok(()) }
    }

    /// When this returns, every lookup that begins sees what is committed now.
    async fn refresh(&self) -> Result<(), StoreError> {
        let now = self.clock.now();
        self.suppressions.replace(self.store.list_suppressions().await?);
        let mut tokens = Vec::new();
        for (hash, token) in self.store.list_tokens().await? {
            let used = match self.callers.quota_of(&token) {
                Some(quota) => self.store.hits_since(&token.id, quota.period.days(now).0).await?,
                None => 0,
            };
            tokens.push((hash, token, used));
        }
        self.callers.replace(tokens, now);
        self.store.renew_readers();
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
fn report(result: Result<(), StoreError>, what: &str) -> bool {
    if let Err(error) = &result {
        tracing::error!(%error, "{what}");
    }
    result.is_ok()
}
