//! Connecting: each host in turn, each with its own deadline, until one is the primary. A host that says nothing does not keep the
//! next one waiting.
//!
//! A primary that was replaced may go on, and accept connections. Every replacement begins a new timeline, so of two hosts that can be
//! written to, the one with the older timeline is not the primary any more.

use std::collections::HashMap;
use std::fs::File;
use std::io::BufReader;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use contactd_core::store::{StoreError, Stored};
use parking_lot::Mutex;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;
use tokio_postgres::config::Host;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::types::ToSql;
use tokio_postgres::{
    AsyncMessage, Client, Config, Connection, Error, NoTls, Row, SimpleQueryMessage, Socket, Statement,
};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::failure::{Failure, Tried};
use crate::url::StoreUrl;

/// How long a host may take, at least, to accept a connection and answer the first questions. A host that is frozen accepts, and
/// says nothing.
const SHORTEST_HOST_TIMEOUT: Duration = Duration::from_secs(3);

/// If a host has not answered after this time, the next one is asked too.
const HEAD_START: Duration = Duration::from_millis(250);

/// How long a connection that carries nothing goes on without an answer to a keep-alive.
const KEEPALIVE: Duration = Duration::from_secs(5);

/// The values of a statement.
pub(crate) type Values<'a> = &'a [&'a (dyn ToSql + Sync)];

/// A connection, and what the server has said without being asked.
pub(crate) struct Session {
    pub(crate) client: Client,
    pub(crate) heard: Arc<Heard>,
    /// Which host it leads to.
    pub(crate) host: usize,
    /// On which timeline the host writes.
    timeline: u32,
    /// The process of the server that serves it.
    pub(crate) process: i32,
    driver: AbortHandle,
    /// How many statements were sent, and how many of them are over.
    sent: AtomicU64,
    over: AtomicU64,
    /// Statements that are prepared already: each costs one round trip less.
    statements: Mutex<HashMap<String, Statement>>,
}

/// How many statements a connection remembers. There are fewer, unless texts contain values.
const STATEMENTS: usize = 200;

impl Session {
    async fn prepared(&self, sql: &str) -> Result<Statement, Error> {
        let known = self.statements.lock().get(sql).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let prepared = self.client.prepare(sql).await?;
        if sql.starts_with("FETCH") {
            // The columns are those of the cursor, which is another one next time.
            return Ok(prepared);
        }
        let mut statements = self.statements.lock();
        if statements.len() >= STATEMENTS {
            statements.clear();
        }
        statements.insert(sql.to_owned(), prepared.clone());
        Ok(prepared)
    }

    pub(crate) async fn query(&self, sql: &str, values: Values<'_>) -> Result<Vec<Row>, Error> {
        let _asking = Asking::of(self);
        self.client.query(&self.prepared(sql).await?, values).await
    }

    pub(crate) async fn query_one(&self, sql: &str, values: Values<'_>) -> Result<Row, Error> {
        let _asking = Asking::of(self);
        self.client.query_one(&self.prepared(sql).await?, values).await
    }

    pub(crate) async fn query_opt(&self, sql: &str, values: Values<'_>) -> Result<Option<Row>, Error> {
        let _asking = Asking::of(self);
        self.client.query_opt(&self.prepared(sql).await?, values).await
    }

    pub(crate) async fn execute(&self, sql: &str, values: Values<'_>) -> Result<u64, Error> {
        let _asking = Asking::of(self);
        self.client.execute(&self.prepared(sql).await?, values).await
    }

    /// How many statements are over, if another one waits for its answer.
    pub(crate) fn waits_after(&self) -> Option<u64> {
        let over = self.over.load(Ordering::Relaxed);
        (self.sent.load(Ordering::Relaxed) > over).then_some(over)
    }

    /// Closes the connection now, whoever still holds it and whatever it waits for, which discards what was not committed. Dropping
    /// it would wait for the answer.
    pub(crate) fn cut(&self) {
        self.driver.abort();
    }
}

/// A statement that waits for its answer.
struct Asking<'a>(&'a Session);

impl<'a> Asking<'a> {
    fn of(session: &'a Session) -> Self {
        session.sent.fetch_add(1, Ordering::Relaxed);
        Self(session)
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.over.fetch_add(1, Ordering::Relaxed);
    }
}

/// What a host says of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Served {
    /// It does not answer.
    Silent,
    /// It answers, and works for that connection, as far as is known.
    Works,
    /// It answers, and waits for that connection, or does not know it.
    Waits,
}

impl Deref for Session {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

/// What the server says without being asked.
#[derive(Default)]
pub(crate) struct Heard {
    /// Notified at every NOTIFY that the session listens to, and when the connection ends.
    pub(crate) changes: Notify,
    /// Whether the server gave up waiting for a standby: what was committed then may be lost in a failover.
    pub(crate) gave_up_waiting: AtomicBool,
}

/// How to connect.
pub(crate) struct Connecting {
    hosts: Vec<Config>,
    tls: Option<MakeRustlsConnect>,
    /// How long a host may take to accept a connection and answer the first questions.
    host_timeout: Duration,
    /// The host that is asked first: the last one that worked.
    first: AtomicUsize,
    /// How often another host was made the first.
    moves: AtomicU64,
    /// The newest timeline that was seen, and the host that had it; `None` before the first connection.
    newest: Mutex<Option<(u32, usize)>>,
}

/// The answer of a host.
type Answer = (usize, Tried<Session>);

/// What the hosts that were asked have answered so far.
#[derive(Default)]
struct Answers {
    /// The one with the newest timeline of those that can be written to.
    writable: Option<Session>,
    read_only: Vec<usize>,
    failure: Option<Failure>,
}

impl Answers {
    fn note(&mut self, (host, answer): Answer) {
        match answer {
            Ok(session) => {
                if self.writable.as_ref().is_none_or(|other| other.timeline < session.timeline) {
                    self.writable = Some(session);
                }
            }
            Err(failure) if failure.is_read_only() => self.read_only.push(host),
            // What keeps the others from being the primary is more important. Without a password, waiting for them does not help.
            Err(failure) => {
                if !self.failure.as_ref().is_some_and(Failure::lacks_password) {
                    self.failure = Some(failure);
                }
            }
        }
    }
}

impl Connecting {
    pub(crate) fn new(url: &StoreUrl, answer: Duration) -> Stored<Self> {
        let host_timeout = answer.max(SHORTEST_HOST_TIMEOUT);
        let tls = url.root_cert.as_deref().map(tls).transpose()?;
        let hosts = url.hosts.iter().cloned().map(|mut config| {
            config.connect_timeout(host_timeout);
            config.keepalives_idle(KEEPALIVE).keepalives_interval(KEEPALIVE).keepalives_retries(3);
            config.tcp_user_timeout(3 * KEEPALIVE);
            config
        });
        let (first, moves, newest) = Default::default();
        Ok(Self { hosts: hosts.collect(), tls, host_timeout, first, moves, newest })
    }

    /// Connects to the primary.
    pub(crate) async fn connect(self: &Arc<Self>) -> Tried<Session> {
        let (first, count) = (self.first.load(Ordering::Relaxed), self.hosts.len());
        let mut others = (first..first + count).map(|host| host % count);
        // Dropping it ends the attempts that are still under way.
        let mut asked = JoinSet::new();
        let mut answers = Answers::default();
        while answers.writable.is_none() {
            let next = others.next();
            next.into_iter().for_each(|host| self.ask(host, &mut asked));
            let wait = if next.is_some() { HEAD_START } else { self.host_timeout };
            match tokio::time::timeout(wait, asked.join_next()).await {
                Ok(Some(Ok(answer))) => answers.note(answer),
                Ok(None) => break,
                // There is no answer yet, or no attempt.
                Err(_) | Ok(Some(Err(_))) => {}
            }
        }
        if !answers.writable.as_ref().is_some_and(|session| self.is_newest(session)) {
            // The others have a moment to say that one of them has replaced it.
            others.for_each(|host| self.ask(host, &mut asked));
            let until = Instant::now() + HEAD_START;
            while let Ok(Some(answer)) = tokio::time::timeout_at(until, asked.join_next()).await {
                answer.into_iter().for_each(|answer| answers.note(answer));
            }
        }
        self.choose(answers)
    }

    /// Asks a host, beside the others.
    fn ask(self: &Arc<Self>, host: usize, asked: &mut JoinSet<Answer>) {
        let connecting = Arc::clone(self);
        asked.spawn(async move {
            let connected = tokio::time::timeout(connecting.host_timeout, connecting.connect_to(host)).await;
            (host, connected.unwrap_or(Err(Failure::Silent)))
        });
    }

    fn is_newest(&self, session: &Session) -> bool {
        self.newest.lock().is_some_and(|(timeline, _)| session.timeline >= timeline)
    }

    fn choose(&self, Answers { writable, read_only, failure }: Answers) -> Tried<Session> {
        let Some(session) = writable else {
            return Err(match failure {
                _ if read_only.len() == self.hosts.len() => Failure::NoPrimary,
                failure => failure.unwrap_or(Failure::Silent),
            });
        };
        let mut newest = self.newest.lock();
        // A database that was restored may begin at an older timeline again: then the host that had the newer one says so.
        if let Some((timeline, host)) = *newest
            && session.timeline < timeline
            && session.host != host
            && !read_only.contains(&host)
        {
            return Err(Failure::Replaced);
        }
        *newest = Some((session.timeline, session.host));
        if self.first.swap(session.host, Ordering::Relaxed) != session.host {
            self.moves.fetch_add(1, Ordering::Relaxed);
        }
        Ok(session)
    }

    pub(crate) const fn hosts(&self) -> usize {
        self.hosts.len()
    }

    /// How often another host was made the first. What was read before that may be what a former primary says.
    pub(crate) fn moves(&self) -> u64 {
        self.moves.load(Ordering::Relaxed)
    }

    /// Whether this host is asked first.
    pub(crate) fn is_first(&self, host: usize) -> bool {
        self.first.load(Ordering::Relaxed) == host
    }

    /// Asks this host last when somebody connects the next time: it did not answer. It may be a former primary that still accepts
    /// connections, on which every commit waits for a standby that has left it.
    pub(crate) fn avoid(&self, host: usize) {
        let next = (host + 1) % self.hosts.len();
        // Unless another one is the first already.
        let avoided = self.first.compare_exchange(host, next, Ordering::Relaxed, Ordering::Relaxed);
        if avoided.is_ok() && next != host {
            self.moves.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether the host of a connection still answers others, and what it says of this one: what was sent on it, or the answer, may
    /// have been lost on the way.
    pub(crate) async fn look_at(&self, host: usize, process: i32) -> Served {
        let state = "SELECT state NOT LIKE 'idle%' FROM pg_stat_activity WHERE pid = $1";
        let look = async {
            let other = self.connect_to(host).await?;
            let works = other.query_opt(state, &[&process]).await;
            other.cut();
            Ok(works?.and_then(|row| row.get::<_, Option<bool>>(0)))
        };
        match tokio::time::timeout(self.host_timeout, look).await {
            Ok(Ok(Some(true))) => Served::Works,
            Ok(Ok(_)) => Served::Waits,
            // It refuses, for instance because there are too many connections: that is an answer.
            Ok(Err(failure)) if Failure::is_answer(&failure) => Served::Works,
            Ok(Err(_)) | Err(_) => Served::Silent,
        }
    }

    /// How long the host that is asked first takes for one answer, before anybody logs in: whether it speaks TLS.
    pub(crate) async fn round_trip(&self) -> Option<Duration> {
        const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];
        let config = &self.hosts[self.first.load(Ordering::Relaxed)];
        let (Host::Tcp(name), port) = (config.get_hosts().first()?, config.get_ports().first()?) else {
            return None;
        };
        let mut connection = TcpStream::connect((name.as_str(), *port)).await.ok()?;
        let began = Instant::now();
        connection.write_all(&SSL_REQUEST).await.ok()?;
        connection.read_u8().await.ok()?;
        Some(began.elapsed())
    }

    async fn connect_to(&self, host: usize) -> Tried<Session> {
        let config = &self.hosts[host];
        let (client, heard, driver) = match &self.tls {
            Some(tls) => open(config, tls.clone()).await?,
            None => open(config, NoTls).await?,
        };
        // What we commit has to survive, whatever the default of the database is. Our statements are short, and PostgreSQL would
        // compile some of them for longer than they take. The name of the file that is written begins with the timeline.
        let said = client
            .simple_query(
                "SET search_path TO contactd, pg_temp;
                 SET lock_timeout TO '10s';
                 SET idle_in_transaction_session_timeout TO '5min';
                 SET jit TO off;
                 SELECT set_config('synchronous_commit', 'on', FALSE)
                 WHERE current_setting('synchronous_commit') IN ('off', 'local', 'remote_write');
                 SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8), pg_backend_pid()",
            )
            .await?;
        let rows = said.iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        let last = rows.last();
        let timeline = last.and_then(|row| row.get(0)).and_then(|text| u32::from_str_radix(text, 16).ok());
        let process = last.and_then(|row| row.get(1)).and_then(|text| text.parse().ok());
        let (timeline, process) = (timeline.unwrap_or(0), process.unwrap_or(0));
        let (sent, over, statements) = Default::default();
        Ok(Session { client, heard, host, timeline, process, driver, sent, over, statements })
    }
}

async fn open<T>(host: &Config, tls: T) -> Tried<(Client, Arc<Heard>, AbortHandle)>
where
    T: MakeTlsConnect<Socket> + Send,
    T::Stream: Send + 'static,
    T::TlsConnect: Send,
    <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
{
    let (client, connection) = host.connect(tls).await?;
    let heard = Arc::new(Heard::default());
    let driver = tokio::spawn(listen(connection, Arc::clone(&heard))).abort_handle();
    Ok((client, heard, driver))
}

/// Drives a connection until it ends.
async fn listen<S, T>(mut connection: Connection<S, T>, heard: Arc<Heard>)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    while let Some(Ok(message)) = std::future::poll_fn(|context| connection.poll_message(context)).await {
        match message {
            AsyncMessage::Notification(_) => heard.changes.notify_one(),
            // "canceling wait for synchronous replication": it is committed here, and maybe nowhere else.
            AsyncMessage::Notice(notice) if notice.code().code() == "01000" => {
                heard.gave_up_waiting.store(true, Ordering::SeqCst);
            }
            _ => {}
        }
    }
    heard.changes.notify_one();
}

fn tls(root_cert: &Path) -> Stored<MakeRustlsConnect> {
    let unusable = |what: String| {
        StoreError::Unavailable(format!("the certificates in {} cannot be used: {what}", root_cert.display()))
    };
    let file = File::open(root_cert).map_err(|error| unusable(error.to_string()))?;
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_reader_iter(BufReader::new(file)) {
        let certificate = certificate.map_err(|_| unusable("this is not PEM".to_owned()))?;
        roots.add(certificate).map_err(|error| unusable(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(unusable("there is no certificate in it".to_owned()));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}
