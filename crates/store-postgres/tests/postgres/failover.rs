//! A server that crashes, freezes, waits for a standby, is gone, is read-only, or is replaced by its standby: every change is made
//! once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use contactd_core::store::{
    Details, ImportPlan, ImportSummary, Importing, StoreError, Stored, Suppressions, Tokens,
};
use contactd_core::{ContactValue, Detail, Kind, Profile, Record, SubjectDigest, Token, TokenSecret};
use contactd_store_postgres::{PostgresStore, Settings};
use contactd_testing::TestServer;
use tokio::task::JoinHandle;

use crate::fixture::{database, digest, now, settings};

/// A store that counts how often it waited for the database.
async fn open(url: &str, patience: u64) -> (Arc<PostgresStore>, Arc<AtomicUsize>) {
    let waits = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&waits);
    let settings = Settings {
        patience: Duration::from_secs(patience),
        answer: Duration::from_secs(patience) / 4,
        on_wait: Box::new(move || {
            counted.fetch_add(1, Ordering::SeqCst);
        }),
        ..settings(url)
    };
    (Arc::new(PostgresStore::open(settings).await.expect("opens")), waits)
}

/// A server of its own, the URL of a database, and a store in it.
async fn started(patience: u64) -> (TestServer, String, Arc<PostgresStore>, Arc<AtomicUsize>) {
    let server = TestServer::start();
    let url = server.database();
    let (store, waits) = open(&url, patience).await;
    (server, url, store, waits)
}

/// Suppresses somebody beside the test.
fn suppressing(store: &Arc<PostgresStore>) -> JoinHandle<Stored<u64>> {
    let store = Arc::clone(store);
    tokio::spawn(async move { store.suppress(&[digest(1)], now(), None).await })
}

async fn until(condition: impl Fn() -> bool) {
    while !condition() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Set when it is dropped, so that the tasks also end when the test fails.
struct SetAtEnd(Arc<AtomicBool>);

impl Drop for SetAtEnd {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Tasks that suppress people and create tokens until the end.
struct Writers {
    is_over: SetAtEnd,
    /// How many changes were acknowledged.
    acknowledged: Arc<AtomicU32>,
    running: Vec<JoinHandle<(Vec<SubjectDigest>, Vec<String>)>>,
}

impl Writers {
    fn start(store: &Arc<PostgresStore>, count: u32) -> Self {
        let (is_over, acknowledged) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
        let start = |writer| {
            let (store, is_over, acknowledged) =
                (Arc::clone(store), Arc::clone(&is_over), Arc::clone(&acknowledged));
            tokio::spawn(async move {
                let (mut people, mut tokens) = (Vec::new(), Vec::new());
                for number in 0.. {
                    if is_over.load(Ordering::SeqCst) {
                        break;
                    }
                    let person = digest(writer * 1_000_000 + number);
                    let new = store.suppress(std::slice::from_ref(&person), now(), None).await;
                    assert_eq!(new.expect("suppresses"), 1);
                    people.push(person);
                    let name = format!("crm-{writer}-{number}");
                    let (secret, token) = (TokenSecret::generate(), Token::new(&name, now()));
                    let (secret, token) = (secret.expect("randomness"), token.expect("randomness"));
                    let namesake = store.create_token(&secret.hash(), &token, None).await.expect("creates");
                    assert_eq!(namesake, None);
                    tokens.push(token.id);
                    acknowledged.fetch_add(2, Ordering::SeqCst);
                }
                (people, tokens)
            })
        };
        let running = (0..count).map(start).collect();
        Self { is_over: SetAtEnd(Arc::clone(&is_over)), acknowledged, running }
    }

    /// Waits until more changes were acknowledged.
    async fn go_on(&self) {
        let before = self.acknowledged.load(Ordering::SeqCst);
        until(|| self.acknowledged.load(Ordering::SeqCst) > before + 40).await;
    }

    /// Ends them. Everything that was acknowledged is there once, and nothing else.
    async fn end(self, store: &PostgresStore, server: &TestServer, database: &str) {
        drop(self.is_over);
        let (mut people, mut tokens) = (Vec::new(), Vec::new());
        for writer in self.running {
            let done = writer.await.expect("ends");
            people.extend(done.0);
            tokens.extend(done.1);
        }
        let changes = people.len() + tokens.len();
        people.sort_by_key(|person| person.bytes);
        tokens.sort();
        assert_eq!(store.list_suppressions().await.expect("lists"), people);
        let mut listed: Vec<String> =
            store.list_tokens().await.expect("lists").into_iter().map(|(_, token)| token.id).collect();
        listed.sort();
        assert_eq!(listed, tokens);
        let numbers = "SELECT count(*), min(number), max(number), (SELECT number FROM contactd.counters
            WHERE counter = 'access') FROM contactd.changes WHERE counter = 'access'";
        assert_eq!(server.sql(database, numbers), format!("{changes}|1|{changes}|{changes}"));
    }
}

/// Changes a setting of the server, and waits until it counts.
async fn set(server: &TestServer, name: &str, value: &str) {
    server.sql("postgres", &format!("ALTER SYSTEM SET {name} TO '{value}'"));
    server.sql("postgres", "SELECT pg_reload_conf()");
    until(|| server.sql("postgres", &format!("SHOW {name}")) == value).await;
}

#[tokio::test]
async fn changes_are_made_once_while_the_server_crashes() {
    let (server, url, store, waits) = started(60).await;
    let writers = Writers::start(&store, 8);
    for _ in 0..3 {
        writers.go_on().await;
        server.stop();
        server.run();
    }
    writers.go_on().await;
    assert!(waits.load(Ordering::SeqCst) > 0);
    writers.end(&store, &server, database(&url)).await;
}

#[tokio::test]
async fn changes_are_made_once_while_the_server_is_frozen() {
    let (server, url, store, waits) = started(12).await;
    let writers = Writers::start(&store, 4);
    writers.go_on().await;
    server.freeze();
    until(|| waits.load(Ordering::SeqCst) > 0).await;
    server.thaw();
    writers.go_on().await;
    writers.end(&store, &server, database(&url)).await;
}

/// A server, its standby that every commit waits for, and the URL of a database on both.
async fn primary_and_standby() -> (TestServer, TestServer, String) {
    let primary = TestServer::start();
    let url = primary.database();
    let standby = primary.standby();
    set(&primary, "synchronous_standby_names", "*").await;
    let url = primary.url_with(&standby, database(&url));
    (primary, standby, url)
}

#[tokio::test]
async fn changes_are_made_once_while_a_standby_takes_the_place_of_a_server_that_crashes() {
    let (primary, standby, url) = primary_and_standby().await;
    let (store, waits) = open(&url, 60).await;
    let writers = Writers::start(&store, 8);
    writers.go_on().await;
    primary.stop();
    standby.promote();
    writers.go_on().await;
    assert!(waits.load(Ordering::SeqCst) > 0);
    writers.end(&store, &standby, database(&url)).await;
}

#[tokio::test]
async fn changes_are_made_once_while_a_standby_takes_the_place_of_a_server_that_is_frozen() {
    let (primary, standby, url) = primary_and_standby().await;
    let (store, waits) = open(&url, 12).await;
    let writers = Writers::start(&store, 4);
    writers.go_on().await;
    primary.freeze();
    standby.promote();
    writers.go_on().await;
    assert!(waits.load(Ordering::SeqCst) > 0);
    primary.thaw();
    writers.go_on().await;
    writers.end(&store, &standby, database(&url)).await;
}

#[tokio::test]
async fn a_server_that_was_replaced_and_still_accepts_writes_is_left() {
    let (primary, standby, url) = primary_and_standby().await;
    let (store, _) = open(&url, 12).await;
    let writers = Writers::start(&store, 4);
    writers.go_on().await;
    // Nobody tells the first server. Every commit on it waits for its standby, which has left it.
    standby.promote();
    writers.go_on().await;
    assert_eq!(primary.sql("postgres", "SELECT pg_is_in_recovery()"), "f");
    writers.end(&store, &standby, database(&url)).await;
}

#[tokio::test]
async fn a_server_that_was_replaced_and_goes_on_is_not_asked_any_more() {
    let primary = TestServer::start();
    let url = primary.database();
    let (first, _) = open(&url, 12).await;
    let standby = primary.standby();
    // Nobody tells the first server, and no commit on it waits for anybody.
    standby.promote();
    let both = primary.url_with(&standby, database(&url));
    let (store, _) = open(&both, 12).await;
    assert_eq!(store.suppress(&[digest(1)], now(), None).await.expect("suppresses"), 1);
    let count = "SELECT count(*) FROM contactd.suppressions";
    assert_eq!(standby.sql(database(&url), count), "1");
    assert_eq!(primary.sql(database(&url), count), "0");
    // Not even while the other one does not answer.
    standby.freeze();
    let waiting = suppressing(&store);
    tokio::time::sleep(Duration::from_secs(5)).await;
    standby.thaw();
    waiting.await.expect("ends").expect("suppresses");
    assert_eq!(primary.sql(database(&url), count), "0");
    drop(first);
}

#[tokio::test]
async fn a_change_that_waits_for_a_standby_is_made_once() {
    let (server, url, store, waits) = started(30).await;
    set(&server, "synchronous_standby_names", "nobody").await;
    let suppressing = suppressing(&store);
    // Somebody ends the wait. It is committed then, but another server may not have it: that is not reported as done.
    let waiting = "FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    for _ in 0..2 {
        until(|| server.sql("postgres", &format!("SELECT count(*) {waiting}")) == "1").await;
        server.sql("postgres", &format!("SELECT pg_cancel_backend(pid) {waiting}"));
        until(|| waits.load(Ordering::SeqCst) > 0).await;
    }
    until(|| server.sql("postgres", &format!("SELECT count(*) {waiting}")) == "1").await;
    assert!(!suppressing.is_finished());
    set(&server, "synchronous_standby_names", "").await;
    assert_eq!(suppressing.await.expect("ends").expect("suppresses"), 1);
    assert_eq!(server.sql(database(&url), "SELECT count(*) FROM contactd.changes"), "1");
}

#[tokio::test]
async fn without_a_standby_or_a_server_patience_ends() {
    let (server, _, store, _) = started(2).await;
    set(&server, "synchronous_standby_names", "nobody").await;
    let unknown = store.suppress(&[digest(1)], now(), None).await;
    assert!(matches!(unknown, Err(StoreError::OutcomeUnknown(_))), "{unknown:?}");
    server.stop();
    let gone = store.suppress(&[digest(2)], now(), None).await;
    let gone = gone.expect_err("there is no server").to_string();
    assert!(gone.starts_with("the store cannot be used now: PostgreSQL: connection refused: "), "{gone}");
    assert!(matches!(store.list_suppressions().await, Err(StoreError::Unavailable(_))));
}

#[tokio::test]
async fn a_server_that_is_read_only_is_used_when_it_can_be_written_to() {
    let (server, url, store, waits) = started(60).await;
    set(&server, "default_transaction_read_only", "on").await;
    let suppressing = suppressing(&store);
    until(|| waits.load(Ordering::SeqCst) > 0).await;
    assert_eq!(server.sql(database(&url), "SELECT count(*) FROM contactd.suppressions"), "0");
    set(&server, "default_transaction_read_only", "off").await;
    assert_eq!(suppressing.await.expect("ends").expect("suppresses"), 1);
}

/// Imports one detail.
async fn import_one(store: &PostgresStore) -> Stored<i64> {
    let value = ContactValue::from_store("quell@example.com".to_owned());
    let details = vec![Detail::new(Kind::Email, value, "crm")];
    let mut import = store.begin_import(&ImportPlan::of(1, now())).await?;
    import.put(vec![Record { profile: Profile::from_key("linkedin.com/in/quell"), details }]).await?;
    import.finish().await?;
    let summary = ImportSummary { counts: import.counts(), ..ImportSummary::default() };
    import.commit(&summary, None).await
}

#[tokio::test]
async fn an_import_whose_connection_breaks_after_its_commit_is_reported_as_done() {
    let (server, url, store, waits) = started(30).await;
    set(&server, "synchronous_standby_names", "nobody").await;
    let importing = tokio::spawn({
        let store = Arc::clone(&store);
        async move { import_one(&store).await }
    });
    // It is committed here and waits for a standby, when its connection is cut.
    let waiting = "FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    until(|| server.sql("postgres", &format!("SELECT count(*) {waiting}")) == "1").await;
    server.sql("postgres", &format!("SELECT pg_terminate_backend(pid) {waiting}"));
    until(|| waits.load(Ordering::SeqCst) > 0).await;
    set(&server, "synchronous_standby_names", "").await;
    assert_eq!(importing.await.expect("ends").expect("imports"), 1);
    assert_eq!(store.totals().await.expect("counts").profiles, 1);
    assert_eq!(server.sql(database(&url), "SELECT count(*) FROM contactd.changes"), "1");
}

#[tokio::test]
async fn an_import_on_a_server_that_is_frozen_and_stays_so_ends() {
    let (server, _, store, _) = started(8).await;
    let value = ContactValue::from_store("quell@example.com".to_owned());
    let details = vec![Detail::new(Kind::Email, value, "crm")];
    let record = Record { profile: Profile::from_key("linkedin.com/in/quell"), details };
    for is_begun in [true, false] {
        let began = std::time::Instant::now();
        let failed = if is_begun {
            let mut import = store.begin_import(&ImportPlan::of(1, now())).await.expect("begins");
            server.freeze();
            import.put(vec![record.clone()]).await.expect("waits until there is more");
            import.finish().await.expect_err("nobody answers")
        } else {
            store.begin_import(&ImportPlan::of(1, now())).await.err().expect("nobody answers")
        };
        assert!(began.elapsed() < Duration::from_secs(16), "{:?}", began.elapsed());
        assert!(failed.to_string().contains("nothing was changed"), "{failed}");
    }
    server.thaw();
    assert_eq!(import_one(&store).await.expect("imports"), 1);
}

#[tokio::test]
async fn an_import_that_commits_behind_a_change_that_waits_for_a_standby_is_made() {
    let (server, url, store, _) = started(60).await;
    set(&server, "synchronous_standby_names", "nobody").await;
    let waiting = |event: &str| {
        let count = format!("SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%COMMIT%' AND {event}");
        server.sql("postgres", &count) == "1"
    };
    let (suppressing, importing) = (suppressing(&store), Arc::clone(&store));
    until(|| waiting("wait_event = 'SyncRep'")).await;
    let importing = tokio::spawn(async move { import_one(&importing).await.expect("imports") });
    until(|| waiting("wait_event_type = 'Lock'")).await;
    // Longer than a statement waits for a lock.
    let began = std::time::Instant::now();
    until(|| began.elapsed() > Duration::from_secs(11)).await;
    set(&server, "synchronous_standby_names", "").await;
    assert_eq!(suppressing.await.expect("ends").expect("suppresses"), 1);
    assert_eq!(importing.await.expect("ends"), 1);
    assert_eq!(server.sql(database(&url), "SELECT count(*) FROM contactd.changes"), "2");
}

#[tokio::test]
async fn an_import_whose_connection_breaks_while_it_commits_says_that_nothing_was_changed() {
    let (server, url, store, waits) = started(30).await;
    let break_it = "CREATE FUNCTION break_it() RETURNS trigger LANGUAGE plpgsql
            AS $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$;
        CREATE CONSTRAINT TRIGGER breaks AFTER INSERT ON contactd.changes DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW EXECUTE FUNCTION break_it()";
    server.sql(database(&url), break_it);
    let failed = import_one(&store).await.expect_err("it cannot commit").to_string();
    let expected =
        "the store cannot be used now: PostgreSQL: the connection was lost; nothing was changed, try again";
    assert_eq!(failed, expected);
    assert_eq!(waits.load(Ordering::SeqCst), 1);
    assert_eq!(store.totals().await.expect("counts").profiles, 0);
    server.sql(database(&url), "DROP TRIGGER breaks ON contactd.changes");
    assert_eq!(import_one(&store).await.expect("imports"), 1);
}

/// A way to a server on which everything can be lost, in both directions, while others get through.
struct Way {
    port: u16,
    is_lost: Arc<AtomicBool>,
}

impl Way {
    fn to(server: u16) -> Self {
        use std::io::{Read, Write};
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("binds");
        let port = listener.local_addr().expect("an address").port();
        let is_lost = Arc::new(AtomicBool::new(false));
        let lost = Arc::clone(&is_lost);
        std::thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                // Connections that are made later get through.
                let is_late = lost.load(Ordering::SeqCst);
                let far = std::net::TcpStream::connect(("127.0.0.1", server)).expect("connects");
                for (mut from, mut to) in
                    [(near.try_clone().expect("clones"), far.try_clone().expect("clones")), (far, near)]
                {
                    let lost = Arc::clone(&lost);
                    std::thread::spawn(move || {
                        let mut bytes = [0; 16_384];
                        while let Ok(read @ 1..) = from.read(&mut bytes) {
                            let is_dropped = lost.load(Ordering::SeqCst) && !is_late;
                            if !is_dropped && to.write_all(&bytes[..read]).is_err() {
                                break;
                            }
                        }
                    });
                }
            }
        });
        Self { port, is_lost }
    }
}

#[tokio::test]
async fn a_connection_that_is_dead_while_its_server_answers_others_is_left() {
    let server = TestServer::start();
    let url = server.database();
    let way = Way::to(server.port());
    let through = url.replace(&server.port().to_string(), &way.port.to_string());
    let (store, _) = open(&through, 12).await;
    store.totals().await.expect("reads");
    way.is_lost.store(true, Ordering::SeqCst);
    let began = std::time::Instant::now();
    store.totals().await.expect("reads on another connection");
    let (store, began) = (store, began.elapsed());
    assert!(began < Duration::from_secs(25), "{began:?}");
    assert_eq!(store.suppress(&[digest(1)], now(), None).await.expect("suppresses"), 1);
}
