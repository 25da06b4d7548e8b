//! Reading and changing, over failovers.
//!
//! A change is a transaction under the lock of its counter. It carries a random id, which it stores with its number. If the
//! connection is lost while it commits, the next attempt takes the same lock first, which waits for the end of the lost
//! transaction, and then looks for that id: so it knows whether the change was made, and makes it once.
//!
//! A statement is never cancelled: that would end the wait for a standby and report a commit that can be lost. A connection
//! that does not answer is cut instead.

mod committed;
mod locked;
mod waiting;

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use committed::Committed;
use contactd_core::DigestKeys;
use contactd_core::store::copying::ChangePoint;
use contactd_core::store::sealing::Seal;
use contactd_core::store::{StoreError, Stored};
use parking_lot::Mutex;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_postgres::Row;
use waiting::Waiting;

use crate::Settings;
use crate::connecting::{Connecting, Served, Session, Values};
use crate::failure::{Failure, Tried};
use crate::sealing::Sealing;
use crate::url::StoreUrl;

pub use committed::Unconfirmed;

pub(crate) use crate::counter::Counter;
pub(crate) use crate::work::Work;

/// How long a server may take to begin or end a transaction, at most and at least.
pub(crate) const LONGEST_STATEMENT: Duration = Duration::from_secs(15);
const SHORTEST_STATEMENT: Duration = Duration::from_secs(2);
/// How long a statement waits for a lock, once the counter is locked.
const LOCK_TIMEOUT: &str = "10s";
/// Connections that are kept for the next use.
const KEPT: usize = 4;

/// What is done in a transaction. It may be done several times.
pub(crate) trait Doing<T>: FnMut(Work) -> Self::Done + Send {
    type Done: Future<Output = Tried<T>> + Send;
}

impl<T, F, Done> Doing<T> for F
where
    F: FnMut(Work) -> Done + Send,
    Done: Future<Output = Tried<T>> + Send,
{
    type Done = Done;
}

/// Connections to a database.
pub(crate) struct Database {
    /// Drives the connections, so that whoever polls a future of this store needs no runtime of its own.
    runtime: Handle,
    /// Dropping it ends the thread of the runtime.
    _running: oneshot::Sender<()>,
    pub(crate) connecting: Arc<Connecting>,
    pub(crate) url: StoreUrl,
    idle: Mutex<Vec<Arc<Session>>>,
    patience: Duration,
    /// Since when the server has not answered; `None` if it has, or was not asked. Patience runs from here on, so that a command of several
    /// steps does not wait for each of them.
    away_since: Mutex<Option<Instant>>,
    /// How long a server may take to begin or end a transaction. Then it is asked whether it still answers.
    pub(crate) statement: Duration,
    on_wait: Box<dyn Fn() + Send + Sync>,
    /// What was committed here: of tokens and suppressions, and of details.
    committed: [Committed; 2],
    /// With what changes are sealed. A command or a server has them before it changes anything.
    pub(crate) keys: OnceLock<DigestKeys>,
}

impl Database {
    pub(crate) fn new(settings: Settings) -> Stored<Self> {
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
            connecting: Arc::new(Connecting::new(&settings.url, settings.answer)?),
            url: settings.url,
            idle: Mutex::default(),
            patience: settings.patience,
            away_since: Mutex::default(),
            statement: settings.answer.clamp(SHORTEST_STATEMENT, LONGEST_STATEMENT),
            on_wait: settings.on_wait,
            committed: Default::default(),
            keys: OnceLock::new(),
        })
    }

    /// Changes something in one transaction under the lock of a counter. `work` may run several times; what it does is
    /// committed once.
    pub(crate) async fn change<T: Send>(&self, counter: Counter, work: impl Doing<T>) -> Stored<T> {
        self.change_if(counter, |_| true, work).await
    }

    /// Like [`change`](Self::change). If what `work` returns is no change, it takes no number: nodes have nothing to follow.
    pub(crate) async fn change_if<T: Send>(
        &self,
        counter: Counter,
        is_change: fn(&T) -> bool,
        mut work: impl Doing<T>,
    ) -> Stored<T> {
        let mut waiting = Waiting::new(self);
        // Nobody holds the others for long, unless the server hangs.
        waiting.waits_for_locks = counter != Counter::Details;
        // The attempts whose end is not known, and what the last of them did.
        let mut unknown: Vec<Vec<u8>> = Vec::new();
        let mut done_maybe: Option<T> = None;
        loop {
            let id = random_id()?;
            match self.attempt(counter, (&unknown, &id), is_change, &mut work).await {
                Ok(Attempt::Made(done)) => return Ok(done),
                Ok(Attempt::MadeEarlier) => {
                    let nobody = || StoreError::Engine("a change that nobody made is on record".to_owned());
                    return done_maybe.ok_or_else(nobody);
                }
                Ok(Attempt::Unknown(done, failure)) => {
                    unknown.push(id);
                    done_maybe = Some(done);
                    waiting.after(failure, true).await?;
                }
                Err(failure) => waiting.after(failure, done_maybe.is_some()).await?,
            }
        }
    }

    async fn attempt<T: Send>(
        &self,
        counter: Counter,
        (unknown, id): (&[Vec<u8>], &[u8]),
        is_change: fn(&T) -> bool,
        work: &mut impl Doing<T>,
    ) -> Tried<Attempt<T>> {
        let session = self.session().await?;
        let attempted = async {
            let number = match self.begin(&session, counter, unknown).await? {
                Begun::Next(number) => number,
                Begun::MadeEarlier(change) => {
                    // The standby may not have it yet. This commit waits for that too, because the lock was written.
                    self.commit(&session).await?;
                    self.note_committed(counter, change);
                    return Ok(Attempt::MadeEarlier);
                }
            };
            let sealing = match self.keys.get() {
                Some(keys) if counter.is_sealed() => {
                    let begun = Sealing::begin(keys, &session, counter, (number, id));
                    Some(Arc::new(self.within(self.statement, begun).await?))
                }
                _ => None,
            };
            let begun = Work { sealing, ..self.work(&session, number) };
            let done = self.watched(&session, work(begun.clone())).await?;
            let is_change = is_change(&done);
            if is_change {
                self.count(&session, counter, (number, id), begun.seal()).await?;
            }
            match self.commit(&session).await {
                Ok(()) => {
                    if is_change {
                        self.note_committed(counter, ChangePoint { number, id: id.to_vec() });
                    }
                    Ok(Attempt::Made(done))
                }
                Err(failure) if failure.is_passing() => Ok(Attempt::Unknown(done, failure)),
                Err(failure) => Err(failure),
            }
        };
        let attempted = attempted.await;
        match &attempted {
            Ok(Attempt::Made(_) | Attempt::MadeEarlier) => self.keep(session),
            Ok(Attempt::Unknown(_, failure)) | Err(failure) => self.give_back(session, failure).await,
        }
        attempted
    }

    /// Reads in one snapshot. `work` may run several times.
    pub(crate) async fn read<T: Send>(&self, mut work: impl Doing<T>) -> Stored<T> {
        let mut waiting = Waiting::new(self);
        loop {
            match self.read_once(&mut work).await {
                Ok(read) => return Ok(read),
                Err(failure) => waiting.after(failure, false).await?,
            }
        }
    }

    /// Reads with one statement.
    pub(crate) async fn query(&self, sql: &str, values: Values<'_>) -> Stored<Vec<Row>> {
        self.read(move |work| async move { Ok(work.query(sql, values).await?) }).await
    }

    /// Reads one row with one statement.
    pub(crate) async fn query_one(&self, sql: &str, values: Values<'_>) -> Stored<Row> {
        self.read(move |work| async move { Ok(work.query_one(sql, values).await?) }).await
    }

    /// Reads one row, if there is one, with one statement.
    pub(crate) async fn query_opt(&self, sql: &str, values: Values<'_>) -> Stored<Option<Row>> {
        self.read(move |work| async move { Ok(work.query_opt(sql, values).await?) }).await
    }

    /// [Prepares](Self::prepare) with one statement. Returns how many rows it changed.
    pub(crate) async fn execute(&self, sql: &str, values: Values<'_>) -> Stored<u64> {
        self.prepare(move |work| async move { Ok(work.execute(sql, values).await?) }).await
    }

    /// Like [`read`](Self::read), but does not try again: for reads whose results go out one by one.
    pub(crate) async fn read_once<T: Send>(&self, work: &mut impl Doing<T>) -> Tried<T> {
        let session = self.session().await?;
        let read = async {
            let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
            // It is only sent: if it fails, so does what follows.
            let mut beginning = std::pin::pin!(session.batch_execute(begin));
            sent(beginning.as_mut()).await;
            let working = work(self.work(&session, 0));
            self.watched(&session, working).await
        };
        let read = read.await;
        match &read {
            Ok(_) => {
                // Whoever uses the connection next waits for the end of the transaction.
                sent(std::pin::pin!(session.batch_execute("COMMIT"))).await;
                self.keep(session);
            }
            Err(failure) => self.give_back(session, failure).await,
        }
        read
    }

    /// Runs a transaction without a number, which may be committed more than once: doing it again must change nothing.
    pub(crate) async fn prepare<T: Send>(&self, mut work: impl Doing<T>) -> Stored<T> {
        let mut waiting = Waiting::new(self);
        let mut is_unknown = false;
        loop {
            match self.prepare_once(&mut work, &mut is_unknown).await {
                Ok(done) => return Ok(done),
                Err(failure) => waiting.after(failure, is_unknown).await?,
            }
        }
    }

    /// Like [`prepare`](Self::prepare), but does not try again.
    pub(crate) async fn prepare_without_waiting<T: Send>(&self, mut work: impl Doing<T>) -> Stored<T> {
        let mut is_unknown = false;
        let prepared = self.prepare_once(&mut work, &mut is_unknown).await;
        match prepared {
            Ok(done) => Ok(done),
            Err(failure) => Err(self.explained(failure, is_unknown).await),
        }
    }

    /// `is_unknown` is whether an attempt may have been committed.
    async fn prepare_once<T: Send>(&self, work: &mut impl Doing<T>, is_unknown: &mut bool) -> Tried<T> {
        let session = self.session().await?;
        let prepared = async {
            let begin = "BEGIN ISOLATION LEVEL READ COMMITTED";
            self.within(self.statement, session.batch_execute(begin)).await?;
            if *is_unknown {
                // If there is nothing left to do, the commit must still wait for the standby: so it writes something.
                let write = "SELECT pg_logical_emit_message(TRUE, 'contactd', '')";
                self.within(self.statement, session.batch_execute(write)).await?;
            }
            let working = work(self.work(&session, 0));
            let done = self.watched(&session, working).await?;
            let committed = self.commit(&session).await;
            *is_unknown |= committed.as_ref().is_err_and(Failure::is_passing);
            committed.map(|()| done)
        };
        let prepared = prepared.await;
        match &prepared {
            Ok(_) => self.keep(session),
            Err(failure) => self.give_back(session, failure).await,
        }
        prepared
    }

    /// Runs a statement outside of any transaction, such as VACUUM. It may run several times, and waits for other statements
    /// of its kind.
    pub(crate) async fn run_alone(&self, limit: Duration, statement: &str) -> Stored<()> {
        let mut waiting = Waiting::new(self);
        waiting.waits_for_locks = true;
        loop {
            match self.run_alone_once(limit, statement).await {
                Ok(()) => return Ok(()),
                Err(failure) => waiting.after(failure, false).await?,
            }
        }
    }

    /// Like [`run_alone`](Self::run_alone), but does not try again.
    pub(crate) async fn run_alone_once(&self, limit: Duration, statement: &str) -> Tried<()> {
        let session = self.session().await?;
        let run = self.within(limit, session.batch_execute(statement)).await;
        match &run {
            Ok(()) => self.keep(session),
            Err(failure) if failure.is_passing() => self.give_up(&session),
            Err(_) => self.keep(session),
        }
        run
    }

    /// A connection outside of any transaction. It is not given back.
    pub(crate) async fn session(&self) -> Tried<Arc<Session>> {
        loop {
            let kept = self.idle.lock().pop();
            match kept {
                Some(session) if !session.is_closed() && self.is_current(&session) => return Ok(session),
                Some(_) => {}
                None => break,
            }
        }
        self.new_session().await.map(Arc::new)
    }

    /// A new connection.
    pub(crate) async fn new_session(&self) -> Tried<Session> {
        let connecting = Arc::clone(&self.connecting);
        let connected = self.runtime.spawn(async move { connecting.connect().await }).await;
        connected.unwrap_or(Err(Failure::Silent))
    }

    /// How often another host was asked first.
    pub(crate) fn moves(&self) -> u64 {
        self.connecting.moves()
    }

    /// Whether this connection leads to the host that the next one would be made to first.
    pub(crate) fn is_current(&self, session: &Session) -> bool {
        self.connecting.is_first(session.host)
    }

    /// Waits for work of any length, as long as the server still answers others: one that is frozen does not.
    pub(crate) async fn watched<T>(
        &self,
        session: &Session,
        work: impl Future<Output = Tried<T>> + Send,
    ) -> Tried<T> {
        tokio::select! {
            biased;
            done = work => done,
            () = self.until_silent(session) => {
                self.give_up(session);
                Err(Failure::Silent)
            }
        }
    }

    /// Asks a server from time to time, until it does not answer; or until it waits for this connection twice, while the same statement
    /// waits for its answer here.
    async fn until_silent(&self, session: &Session) {
        let mut before = None;
        loop {
            self.sleep(self.statement).await;
            let waits_after = session.waits_after();
            let (connecting, host, process) = (Arc::clone(&self.connecting), session.host, session.process);
            let served = self.spawn(async move { connecting.look_at(host, process).await }).await;
            match served.unwrap_or(Served::Silent) {
                Served::Silent => return,
                Served::Waits if waits_after.is_some() && waits_after == before => return,
                Served::Waits => before = waits_after,
                Served::Works => before = None,
            }
        }
    }

    /// Waits for a statement, not longer than this.
    pub(crate) async fn within<T, E: Into<Failure>>(
        &self,
        limit: Duration,
        statement: impl Future<Output = Result<T, E>> + Send,
    ) -> Tried<T> {
        tokio::select! {
            biased;
            done = statement => done.map_err(Into::into),
            () = self.sleep(limit) => Err(Failure::Silent),
        }
    }

    /// Runs something beside the caller. Dropping the handle does not end it.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.runtime.spawn(task)
    }

    /// A connection for reading beside a change, outside of any transaction. It is not given back.
    pub(crate) async fn reader(&self) -> Tried<Work> {
        Ok(self.work(&self.session().await?, 0))
    }

    fn work(&self, session: &Arc<Session>, number: i64) -> Work {
        Work { session: Arc::clone(session), number, sealing: None }
    }

    /// Begins a change that takes long and cannot be repeated. Nothing is changed if this fails. Whoever does not commit it has to [cut](Work::cut) it.
    pub(crate) async fn begin_long(&self, counter: Counter) -> Stored<Work> {
        let mut waiting = Waiting::new(self);
        loop {
            let begun = async {
                let session = self.session().await?;
                match self.begin(&session, counter, &[]).await {
                    Ok(Begun::Next(number) | Begun::MadeEarlier(ChangePoint { number, .. })) => {
                        Ok(self.work(&session, number))
                    }
                    Err(failure) => {
                        self.give_back(session, &failure).await;
                        Err(failure)
                    }
                }
            };
            match begun.await {
                Ok(work) => return Ok(work),
                Err(failure) => waiting.after_discarding(failure).await?,
            }
        }
    }

    /// Commits what [`begin_long`](Self::begin_long) began. If the connection is lost meanwhile, it finds out whether the
    /// change was made.
    pub(crate) async fn commit_long(&self, counter: Counter, work: Work) -> Stored<()> {
        let id = random_id()?;
        let Work { session, number, .. } = work;
        let mut is_unknown = false;
        let committed = async {
            self.count(&session, counter, (number, &id), None).await?;
            let committed = self.commit(&session).await;
            is_unknown = committed.as_ref().is_err_and(Failure::is_passing);
            committed
        };
        let mut failure = match committed.await {
            Ok(()) => {
                self.note_committed(counter, ChangePoint { number, id });
                self.keep(session);
                return Ok(());
            }
            Err(failure) => {
                self.give_back(session, &failure).await;
                failure
            }
        };
        if !is_unknown {
            return Err(failure.into_discarded());
        }
        let mut waiting = Waiting::new(self);
        loop {
            waiting.after(failure, true).await?;
            failure = match self.was_made(counter, &id).await {
                Ok(true) => return Ok(()),
                Ok(false) => {
                    let what = "PostgreSQL: the connection was lost; nothing was changed, try again";
                    return Err(StoreError::Unavailable(what.to_owned()));
                }
                Err(failure) => failure,
            };
        }
    }

    /// Whether the change with this id is committed. Waits for its end first.
    async fn was_made(&self, counter: Counter, id: &[u8]) -> Tried<bool> {
        let session = self.session().await?;
        let looked = async {
            let begun = self.begin(&session, counter, &[id.to_vec()]).await?;
            // The standby may not have it yet. This commit waits for that too, because the lock was written.
            self.commit(&session).await?;
            let Begun::MadeEarlier(change) = begun else { return Ok(false) };
            self.note_committed(counter, change);
            Ok(true)
        };
        let looked = looked.await;
        match &looked {
            Ok(_) => self.keep(session),
            Err(failure) => self.give_back(session, failure).await,
        }
        looked
    }

    /// Sleeps. Works on every thread.
    pub(crate) fn sleep(&self, time: Duration) -> tokio::time::Sleep {
        let _entered = self.runtime.enter();
        tokio::time::sleep(time)
    }

    /// Takes the lock of the counter. Returns the number of the change, or that an earlier attempt was committed.
    async fn begin(&self, session: &Session, counter: Counter, unknown: &[Vec<u8>]) -> Tried<Begun> {
        let (name, lock_timeout) = (counter.name(), counter.lock_timeout());
        let begin = format!(
            "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout TO {}",
            lock_timeout.as_millis()
        );
        // It is only sent: if it fails, so does what follows.
        let mut beginning = std::pin::pin!(session.batch_execute(&begin));
        sent(beginning.as_mut()).await;
        // The short limit is for this lock only: nobody holds a row for long. It is set when the lock is there, in one round trip.
        let lock = "WITH locked AS MATERIALIZED (SELECT number FROM counters WHERE counter = $1 FOR UPDATE)
            SELECT number, set_config('lock_timeout', $2, TRUE) FROM locked";
        let lock = async { session.query_one(lock, &[&name, &LOCK_TIMEOUT]).await };
        let number: i64 = self.within(self.statement + lock_timeout, lock).await?.get(0);
        if !unknown.is_empty() {
            let known = "SELECT number, id FROM changes WHERE id = ANY($1)";
            let known = async { session.query_opt(known, &[&unknown]).await };
            if let Some(row) = self.within(self.statement, known).await? {
                return Ok(Begun::MadeEarlier(ChangePoint { number: row.get(0), id: row.get(1) }));
            }
        }
        Ok(Begun::Next(number + 1))
    }

    /// Stores the number and the id of a change, and its seal.
    async fn count(
        &self,
        session: &Session,
        counter: Counter,
        (number, id): (i64, &[u8]),
        seal: Option<Seal>,
    ) -> Tried<()> {
        let (name, number) = (counter.name(), &number);
        let count = async {
            // A commit that notifies waits for every other one, and that may wait for a standby. All the work is not discarded for it.
            let count = "WITH counted AS (UPDATE counters SET number = $2 WHERE counter = $1),
                    stored AS (INSERT INTO changes (counter, number, id, seal_key, seal_sum, seal_tag)
                        VALUES ($1, $2, $3, $4, $5, $6))
                SELECT pg_notify('contactd', ''), set_config('lock_timeout', '0', TRUE)
                    WHERE $1 NOT IN ('usage', 'accounts')";
            let key = seal.as_ref().map(|seal| &seal.key);
            let (sum, tag) = seal.as_ref().map(|seal| (&seal.sum[..], &seal.tag[..])).unzip();
            session.execute(count, &[&name, number, &id, &key, &sum, &tag]).await.map(|_| ())
        };
        self.within(self.statement, count).await
    }

    /// Commits. If this fails in passing, it is not known whether it was committed.
    async fn commit(&self, session: &Session) -> Tried<()> {
        session.heard.gave_up_waiting.store(false, Ordering::SeqCst);
        self.within(self.statement, session.batch_execute("COMMIT")).await?;
        if session.heard.gave_up_waiting.load(Ordering::SeqCst) {
            // The next attempt finds it if it was not lost.
            return Err(Failure::Silent);
        }
        Ok(())
    }

    /// After a failure: ends the transaction and keeps the connection, or gives it up if it does not work any more.
    async fn give_back(&self, session: Arc<Session>, failure: &Failure) {
        let is_lost = failure.is_passing() || session.is_closed();
        if is_lost || self.within(self.statement, session.batch_execute("ROLLBACK")).await.is_err() {
            self.give_up(&session);
        } else {
            if failure.is_busy() {
                // Maybe a commit holds the lock that waits for a standby for ever, because this is not the primary any more.
                self.connecting.avoid(session.host);
            }
            self.keep(session);
        }
    }

    /// Cuts a connection that does not work any more, and forgets those that are kept: they lead to the same server. Other hosts are
    /// asked first then.
    pub(crate) fn give_up(&self, session: &Session) {
        session.cut();
        self.idle.lock().clear();
        self.connecting.avoid(session.host);
    }

    /// Keeps a connection that is in no transaction for the next use, unless others go to another host by now.
    pub(crate) fn keep(&self, session: Arc<Session>) {
        *self.away_since.lock() = None;
        let mut idle = self.idle.lock();
        if idle.len() < KEPT && !session.is_closed() && self.is_current(&session) {
            idle.push(session);
        }
    }
}

/// Polls once, which sends a statement.
async fn sent<F: Future>(mut statement: Pin<&mut F>) {
    poll_fn(|context| {
        let _ = statement.as_mut().poll(context);
        Poll::Ready(())
    })
    .await;
}

/// How a change began.
enum Begun {
    /// It has this number.
    Next(i64),
    /// An earlier attempt was committed as this change.
    MadeEarlier(ChangePoint),
}

/// How an attempt to change something ended.
enum Attempt<T> {
    /// It is committed.
    Made(T),
    /// An earlier attempt was committed.
    MadeEarlier,
    /// It may be committed or not.
    Unknown(T, Failure),
}

/// Random bytes that nobody else has: the id of a change or of a process.
pub fn random_id() -> Stored<Vec<u8>> {
    let mut id = vec![0; 16];
    getrandom::fill(&mut id)
        .map_err(|error| StoreError::Engine(format!("cannot get random bytes from the system: {error}")))?;
    Ok(id)
}
