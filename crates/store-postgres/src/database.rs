//! Reading and changing, over failovers.
//!
//! A change is a transaction under the lock of its counter. It carries a random id, which it stores with its number. If the
//! connection is lost while it commits, the next attempt takes the same lock first, which waits for the end of the lost
//! transaction, and then looks for that id: so it knows whether the change was made, and makes it once.
//!
//! A statement is never cancelled: that would end the wait for a standby and report a commit that can be lost. A connection
//! that does not answer is cut instead.

use std::future::Future;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use contactd_core::store::StoreError;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio_postgres::Client;

use crate::Settings;
use crate::connecting::{Connecting, Session};
use crate::failure::Failure;

/// How long one statement of a change or a short read may take.
const STATEMENT: Duration = Duration::from_secs(15);
/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(250);
/// Connections that are kept for the next use.
const KEPT: usize = 4;

/// Connections to a database.
pub(crate) struct Database {
    /// Drives the connections, so that whoever polls a future of this store needs no runtime of its own.
    runtime: Handle,
    /// Dropping it ends the thread of the runtime.
    _running: oneshot::Sender<()>,
    connecting: Arc<Connecting>,
    idle: Mutex<Vec<Arc<Session>>>,
    patience: Duration,
    on_wait: Box<dyn Fn() + Send + Sync>,
}

/// Which counter a change increases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counter {
    /// Tokens and suppressions.
    Access,
    /// Details.
    Details,
}

impl Counter {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Access => "access",
            Self::Details => "details",
        }
    }

    /// How long to wait for another change of the same counter. An import holds the one of details for long.
    const fn lock_timeout(self) -> &'static str {
        match self {
            Self::Access => "10s",
            Self::Details => "500ms",
        }
    }
}

/// A transaction in which something is changed.
#[derive(Clone)]
pub(crate) struct Work {
    session: Arc<Session>,
    /// The number of this change.
    pub(crate) number: i64,
}

impl std::ops::Deref for Work {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.session.client
    }
}

impl Database {
    pub(crate) fn new(settings: Settings) -> Result<Self, StoreError> {
        let failed = |error: std::io::Error| StoreError::Engine(format!("cannot start a thread: {error}"));
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let handle = runtime.handle().clone();
        let (running, ended) = oneshot::channel::<()>();
        thread::Builder::new()
            .name("postgres".to_owned())
            .spawn(move || drop(runtime.block_on(ended)))
            .map_err(failed)?;
        Ok(Self {
            runtime: handle,
            _running: running,
            connecting: Arc::new(Connecting::new(&settings.url)?),
            idle: Mutex::default(),
            patience: settings.patience,
            on_wait: settings.on_wait,
        })
    }

    /// Changes something in one transaction under the lock of a counter. `work` may run several times; what it does is
    /// committed once.
    pub(crate) async fn change<T, F, Fut>(&self, counter: Counter, mut work: F) -> Result<T, StoreError>
    where
        T: Send,
        F: FnMut(Work) -> Fut + Send,
        Fut: Future<Output = Result<T, Failure>> + Send,
    {
        let mut waiting = Waiting::new(self);
        // The attempts whose end is not known, and what the last of them did.
        let mut unknown: Vec<Vec<u8>> = Vec::new();
        let mut done_maybe: Option<T> = None;
        loop {
            let session = match self.session().await {
                Ok(session) => session,
                Err(failure) => {
                    waiting.after(failure, done_maybe.is_some()).await?;
                    continue;
                }
            };
            let begun = self.begin(&session, counter, &unknown).await;
            let number = match begun {
                Ok(Begun::Earlier) => {
                    self.end(&session).await;
                    match done_maybe {
                        Some(done) => return Ok(done),
                        None => {
                            return Err(StoreError::Engine(
                                "a change that nobody made is on record".to_owned(),
                            ));
                        }
                    }
                }
                Ok(Begun::Number(number)) => number,
                Err(failure) => {
                    self.give_back_unless_lost(session, &failure).await;
                    waiting.after(failure, done_maybe.is_some()).await?;
                    continue;
                }
            };
            let worked = work(Work { session: Arc::clone(&session), number }).await;
            let done = match worked {
                Ok(done) => done,
                Err(failure) => {
                    self.give_back_unless_lost(session, &failure).await;
                    waiting.after(failure, done_maybe.is_some()).await?;
                    continue;
                }
            };
            let id = random_id()?;
            match self.commit(&session, counter, number, &id).await {
                Ok(()) => {
                    self.keep(session);
                    return Ok(done);
                }
                Err(failure) => {
                    if failure.is_passing() {
                        unknown.push(id);
                        done_maybe = Some(done);
                    }
                    self.give_back_unless_lost(session, &failure).await;
                    waiting.after(failure, done_maybe.is_some()).await?;
                }
            }
        }
    }

    /// Reads in one snapshot. `work` may run several times.
    pub(crate) async fn read<T, F, Fut>(&self, mut work: F) -> Result<T, StoreError>
    where
        T: Send,
        F: FnMut(Work) -> Fut + Send,
        Fut: Future<Output = Result<T, Failure>> + Send,
    {
        let mut waiting = Waiting::new(self);
        loop {
            match self.read_once(&mut work).await {
                Ok(read) => return Ok(read),
                Err(failure) => waiting.after(failure, false).await?,
            }
        }
    }

    /// Like [`read`](Self::read), but does not try again: for reads whose results go out one by one.
    pub(crate) async fn read_once<T, F, Fut>(&self, work: &mut F) -> Result<T, Failure>
    where
        T: Send,
        F: FnMut(Work) -> Fut + Send,
        Fut: Future<Output = Result<T, Failure>> + Send,
    {
        let session = self.session().await?;
        let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
        let read = match self.within(STATEMENT, session.client.batch_execute(begin)).await {
            Ok(()) => work(Work { session: Arc::clone(&session), number: 0 }).await,
            Err(failure) => Err(failure),
        };
        match read {
            Ok(read) => {
                self.end(&session).await;
                Ok(read)
            }
            Err(failure) => {
                self.give_back_unless_lost(session, &failure).await;
                Err(failure)
            }
        }
    }

    /// Runs a transaction without a number, that can be repeated: to make the tables.
    pub(crate) async fn prepare<T, F, Fut>(&self, mut work: F) -> Result<T, StoreError>
    where
        T: Send,
        F: FnMut(Work) -> Fut + Send,
        Fut: Future<Output = Result<T, Failure>> + Send,
    {
        let mut waiting = Waiting::new(self);
        loop {
            match self.prepare_once(&mut work).await {
                Ok(done) => return Ok(done),
                Err(failure) => waiting.after(failure, false).await?,
            }
        }
    }

    async fn prepare_once<T, F, Fut>(&self, work: &mut F) -> Result<T, Failure>
    where
        T: Send,
        F: FnMut(Work) -> Fut + Send,
        Fut: Future<Output = Result<T, Failure>> + Send,
    {
        let session = self.session().await?;
        let prepared = async {
            self.within(STATEMENT, session.client.batch_execute("BEGIN")).await?;
            let done = work(Work { session: Arc::clone(&session), number: 0 }).await?;
            self.within(STATEMENT, session.client.batch_execute("COMMIT")).await?;
            Ok(done)
        };
        match prepared.await {
            Ok(done) => {
                self.keep(session);
                Ok(done)
            }
            Err(failure) => {
                self.give_back_unless_lost(session, &failure).await;
                Err(failure)
            }
        }
    }

    /// A connection outside of any transaction. It is not given back.
    pub(crate) async fn session(&self) -> Result<Arc<Session>, Failure> {
        loop {
            let kept = self.idle().pop();
            match kept {
                Some(session) if !session.client.is_closed() => return Ok(session),
                Some(_) => {}
                None => break,
            }
        }
        let connecting = Arc::clone(&self.connecting);
        let connected = self.runtime.spawn(async move { connecting.connect().await }).await;
        connected.unwrap_or(Err(Failure::Silent)).map(Arc::new)
    }

    /// Waits for a statement, not longer than this.
    pub(crate) async fn within<T, E: Into<Failure>>(
        &self,
        limit: Duration,
        statement: impl Future<Output = Result<T, E>> + Send,
    ) -> Result<T, Failure> {
        let sleep = self.sleep(limit);
        tokio::select! {
            biased;
            done = statement => done.map_err(Into::into),
            () = sleep => Err(Failure::Silent),
        }
    }

    /// Sleeps. Works on every thread.
    pub(crate) fn sleep(&self, time: Duration) -> tokio::time::Sleep {
        let _entered = self.runtime.enter();
        tokio::time::sleep(time)
    }

    async fn begin(
        &self,
        session: &Session,
        counter: Counter,
        unknown: &[Vec<u8>],
    ) -> Result<Begun, Failure> {
        let client = &session.client;
        let begin = format!("BEGIN; SET LOCAL lock_timeout TO '{}'", counter.lock_timeout());
        self.within(STATEMENT, client.batch_execute(&begin)).await?;
        let name = counter.name();
        let lock = async {
            client.query_one("SELECT number FROM counters WHERE counter = $1 FOR UPDATE", &[&name]).await
        };
        let number: i64 = self.within(STATEMENT, lock).await?.get(0);
        if !unknown.is_empty() {
            let known =
                async { client.query_opt("SELECT 1 FROM changes WHERE id = ANY($1)", &[&unknown]).await };
            if self.within(STATEMENT, known).await?.is_some() {
                return Ok(Begun::Earlier);
            }
        }
        Ok(Begun::Number(number + 1))
    }

    async fn commit(
        &self,
        session: &Session,
        counter: Counter,
        number: i64,
        id: &[u8],
    ) -> Result<(), Failure> {
        let client = &session.client;
        let name = counter.name();
        let count = async {
            client.execute("UPDATE counters SET number = $2 WHERE counter = $1", &[&name, &number]).await?;
            let stored = "INSERT INTO changes (counter, number, id) VALUES ($1, $2, $3)";
            client.execute(stored, &[&name, &number, &id]).await?;
            client.batch_execute("NOTIFY contactd").await
        };
        self.within(STATEMENT, count).await?;
        session.heard.gave_up_waiting.store(false, Ordering::SeqCst);
        self.within(STATEMENT, client.batch_execute("COMMIT")).await?;
        if session.heard.gave_up_waiting.load(Ordering::SeqCst) {
            // The next attempt finds it if it was not lost.
            return Err(Failure::Silent);
        }
        Ok(())
    }

    /// Ends a transaction that changed nothing.
    async fn end(&self, session: &Arc<Session>) {
        if self.within(STATEMENT, session.client.batch_execute("COMMIT")).await.is_ok() {
            self.keep(Arc::clone(session));
        }
    }

    /// After a failure. A connection that does not answer is cut by dropping it.
    async fn give_back_unless_lost(&self, session: Arc<Session>, failure: &Failure) {
        if failure.is_passing() || session.client.is_closed() {
            return;
        }
        if self.within(STATEMENT, session.client.batch_execute("ROLLBACK")).await.is_ok() {
            self.keep(session);
        }
    }

    /// Keeps a connection that is in no transaction for the next use.
    pub(crate) fn keep(&self, session: Arc<Session>) {
        let mut idle = self.idle();
        if idle.len() < KEPT && !session.client.is_closed() {
            idle.push(session);
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Arc<Session>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum Begun {
    /// An earlier attempt was committed.
    Earlier,
    /// The number of the change.
    Number(i64),
}

/// Waits between attempts, until patience ends.
struct Waiting<'a> {
    database: &'a Database,
    until: Instant,
    has_told: bool,
}

impl<'a> Waiting<'a> {
    fn new(database: &'a Database) -> Self {
        Self { database, until: Instant::now() + database.patience, has_told: false }
    }

    /// Returns when it is time for another attempt; an error if there is none.
    async fn after(&mut self, failure: Failure, is_unknown: bool) -> Result<(), StoreError> {
        if !failure.is_passing() {
            return Err(if is_unknown { unknown(&failure) } else { failure.into_store_error() });
        }
        if Instant::now() + PAUSE > self.until {
            return Err(if is_unknown { unknown(&failure) } else { failure.into_store_error() });
        }
        if !self.has_told {
            self.has_told = true;
            (self.database.on_wait)();
        }
        self.database.sleep(PAUSE).await;
        Ok(())
    }
}

fn unknown(failure: &Failure) -> StoreError {
    StoreError::OutcomeUnknown(format!("PostgreSQL: {}", failure.what()))
}

fn random_id() -> Result<Vec<u8>, StoreError> {
    let mut id = vec![0; 16];
    getrandom::fill(&mut id)
        .map_err(|error| StoreError::Engine(format!("cannot get random bytes from the system: {error}")))?;
    Ok(id)
}
