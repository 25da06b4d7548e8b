//! Shared by the tests of this crate: an app with one person, and an in-memory connection.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use contactd_core::store::{LocalRead, StoreError, Verdict};
use contactd_core::{
    Caller, Callers, ContactValue, DigestKey, DigestKeys, Kind, ManualClock, Networks, NoAudit, Profile,
    SuppressionList, Timestamp, Token, TokenSecret,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use crate::client_address::Peer;
use crate::connection::{self, Exchange};
use crate::turn::Turn;
use crate::worker_clock::WorkerClock;
use crate::{App, Settings};

const URL: &str = "https://linkedin.com/in/ada-quell";

pub(crate) fn at() -> Timestamp {
    Timestamp::from_seconds(1_780_000_000)
}

/// A store with a phone number of one person.
#[derive(Default)]
pub(crate) struct OnePerson {
    /// Whether it fails.
    pub(crate) is_unreachable: AtomicBool,
}

impl LocalRead for OnePerson {
    fn best_personal(
        &self,
        profile: &Profile,
        kind: Kind,
        _: Timestamp,
        judge: impl Fn(&str) -> Verdict,
    ) -> Result<Option<ContactValue>, StoreError> {
        if self.is_unreachable.load(Ordering::SeqCst) {
            return Err(StoreError::Unavailable("it was switched off".to_owned()));
        }
        let value = "+14155550123";
        let is_taken = judge(value) == Verdict::Take && kind == Kind::Phone && URL.ends_with(profile.key());
        Ok(is_taken.then(|| ContactValue::from_store(value.to_owned())))
    }

    fn renew(&self) {}

    fn renew_all(&self) {}
}

/// An app, its store and a token for it.
pub(crate) struct Served {
    pub(crate) app: Arc<App<OnePerson>>,
    pub(crate) store: Arc<OnePerson>,
    token: String,
}

impl Served {
    /// An app with one person who has a phone number.
    pub(crate) fn with(settings: Settings) -> Self {
        let store = Arc::new(OnePerson::default());
        let secret = TokenSecret::generate().expect("random");
        let callers = Arc::new(Callers::default());
        callers.replace(vec![(secret.hash(), Token::new("crm", at()).expect("random"), 0)], at());
        let keys = DigestKeys::new(vec![DigestKey::new(&[1; 32])]).expect("a key");
        let app = Arc::new(App::new(
            Arc::clone(&store),
            Arc::new(NoAudit),
            callers,
            Arc::new(SuppressionList::new(keys)),
            Networks::built_in(),
            Arc::new(ManualClock::at(at())),
            settings,
        ));
        Self { app, store, token: secret.expose().to_owned() }
    }

    /// The HTTP request that looks up this person.
    pub(crate) fn lookup(&self) -> String {
        let body = format!("{{\"profileUrl\":\"{URL}\"}}");
        format!(
            "POST /api/fetchPhoneNumber HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {}\r\n\
             Content-Length: {}\r\n\r\n{body}",
            self.token,
            body.len()
        )
    }

    /// Opens an in-memory connection. Call this inside a `LocalSet`.
    pub(crate) fn connect(&self) -> Client {
        let (stream, served) = tokio::io::duplex(1 << 16);
        let clock = Rc::new(WorkerClock::new(at()));
        let turn = Rc::new(Turn::new(Rc::clone(&clock), Duration::from_secs(3)));
        let exchange = Exchange::new(Rc::clone(&clock), &self.app.now().settings);
        let ending = Rc::clone(&turn);
        tokio::task::spawn_local(async move { ending.run(|| {}).await });
        let peer = Peer::new(std::net::Ipv4Addr::LOCALHOST.into());
        let serving = connection::serve(Arc::clone(&self.app), served, peer, Rc::clone(&exchange), turn);
        tokio::task::spawn_local(serving);
        Client { stream, clock, exchange }
    }
}

/// Callers with different tokens.
pub(crate) fn callers(count: usize) -> Vec<Caller> {
    let secrets: Vec<_> = (0..count).map(|_| TokenSecret::generate().expect("random")).collect();
    let token = |secret: &TokenSecret| (secret.hash(), Token::new("crm", at()).expect("random"), 0);
    let callers = Callers::default();
    callers.replace(secrets.iter().map(token).collect(), at());
    secrets.iter().map(|secret| callers.find(secret.expose(), at()).expect("known")).collect()
}

/// The client's end of a connection, and the clock of the worker that serves it.
pub(crate) struct Client {
    pub(crate) stream: DuplexStream,
    clock: Rc<WorkerClock>,
    pub(crate) exchange: Rc<Exchange>,
}

impl Client {
    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.expect("sends");
        self.settle().await;
    }

    /// Lets the service do everything that it can do at this moment.
    pub(crate) async fn settle(&self) {
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
    }

    /// Advances the worker's clock, and ends the connection if it is past its deadline.
    pub(crate) async fn pass(&self, time: Duration, is_stopping: bool) {
        let elapsed = self.clock.elapsed() + time;
        self.clock.set(elapsed, at().plus(elapsed));
        self.exchange.end_if_due(is_stopping);
        self.settle().await;
    }

    /// Everything received since the last call, and whether the connection has ended.
    pub(crate) async fn received(&mut self) -> (String, bool) {
        let mut text = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            self.settle().await;
            let reading = tokio::time::timeout(Duration::from_millis(1), self.stream.read(&mut buffer)).await;
            match reading {
                Ok(Ok(read @ 1..)) => text.extend_from_slice(&buffer[..read]),
                Ok(_) => return (String::from_utf8(text).expect("UTF-8"), true),
                Err(_) => return (String::from_utf8(text).expect("UTF-8"), false),
            }
        }
    }
}

/// Runs a test on one thread, with paused time: it only advances while all tasks wait.
pub(crate) fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(tokio::task::LocalSet::new().run_until(test));
}
