//! A cluster in a test: a database of its own, changes by SQL, and nodes.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use contactd_cluster::{Node, NodeSettings, Verified, verify};
use contactd_core::{Lease, SystemClock};
use contactd_store_postgres::{PostgresStore, Settings};
use contactd_store_sqlite::SqliteStore;
use contactd_testing::TestServer;
use tokio::runtime::Runtime;

/// How long something may take that has to happen. Wiping leaves the processor to everybody else.
const PATIENCE: Duration = Duration::from_secs(300);

pub(crate) struct Cluster {
    url: String,
    name: String,
    lease: Duration,
    _store: Arc<PostgresStore>,
}

impl Cluster {
    pub(crate) fn new() -> Self {
        let url = TestServer::shared().database();
        let name = url.rsplit('/').next().expect("a name").to_owned();
        let store = open(&url);
        Self { url, name, lease: Duration::from_secs(2), _store: store }
    }

    pub(crate) fn with_lease(self, lease: Duration) -> Self {
        Self { lease, ..self }
    }

    pub(crate) fn open(&self) -> Arc<PostgresStore> {
        open(&self.url)
    }

    pub(crate) fn sql(&self, sql: &str) -> String {
        TestServer::shared().sql(&self.name, &format!("SET search_path TO contactd; {sql}"))
    }

    /// Makes a change of a counter, as the store does. `:n` stands for its number.
    fn change(&self, counter: &str, sql: &str) {
        let number: i64 = self
            .sql(&format!("SELECT number + 1 FROM counters WHERE counter = '{counter}'"))
            .parse()
            .expect("a number");
        let sql = sql.replace(":n", &number.to_string());
        self.sql(&format!(
            "BEGIN; {sql};
             UPDATE counters SET number = {number} WHERE counter = '{counter}';
             INSERT INTO changes (counter, number, id) VALUES ('{counter}', {number}, sha256(random()::text::bytea));
             NOTIFY contactd; COMMIT"
        ));
    }

    /// Gives each of these places one phone number and one e-mail address.
    pub(crate) fn put_places(&self, places: Range<u64>, value: &str) {
        let Range { start, end } = places;
        self.change(
            "details",
            &format!(
                "INSERT INTO sources VALUES (7, 'crm', NULL, :n) ON CONFLICT DO NOTHING;
                 DELETE FROM tombstones WHERE place / 65536 BETWEEN {start} AND {end} - 1;
                 DELETE FROM details WHERE id / 65536 BETWEEN {start} AND {end} - 1;
                 INSERT INTO details SELECT place * 65536 + kind * 32768, :n, 1000 + place, NULL, :n, NULL, 7, kind, 0, 50,
                     'linkedin.com/in/quell-' || place, '{value}' || place || '@example.com', 'consent'
                 FROM generate_series({start}, {end} - 1) AS place, generate_series(0, 1) AS kind"
            ),
        );
    }

    pub(crate) fn empty_places(&self, places: Range<u64>) {
        let Range { start, end } = places;
        self.change(
            "details",
            &format!(
                "DELETE FROM details WHERE id / 65536 BETWEEN {start} AND {end} - 1;
                 INSERT INTO tombstones SELECT place * 65536, :n FROM generate_series({start}, {end} - 1) AS place
                 ON CONFLICT (place) DO UPDATE SET number = excluded.number"
            ),
        );
    }

    pub(crate) fn put_token(&self, id: &str) {
        self.change(
            "access",
            &format!(
                "INSERT INTO tokens (id, family, body, number) VALUES ('{id}', '{id}', 'new', :n)
                 ON CONFLICT (id) DO UPDATE SET number = :n, body = 'changed'"
            ),
        );
    }

    pub(crate) fn suppress(&self, subject: u64) {
        self.set_suppression(subject, false);
    }

    pub(crate) fn unsuppress(&self, subject: u64) {
        self.set_suppression(subject, true);
    }

    fn set_suppression(&self, subject: u64, is_removed: bool) {
        self.change(
            "access",
            &format!(
                "INSERT INTO suppressions VALUES (sha256('{subject}'), 'k1', 9, {is_removed}, :n)
                 ON CONFLICT (digest, key) DO UPDATE SET is_removed = {is_removed}, number = :n"
            ),
        );
    }

    pub(crate) fn node(&self, id: &str) -> TestNode {
        let dir = tempfile::tempdir().expect("a directory");
        let node = self.node_in(dir.path(), id);
        TestNode { _own_dir: Some(dir), ..node }
    }

    pub(crate) fn node_in(&self, dir: &Path, id: &str) -> TestNode {
        let (gate, clock) = (Arc::new(Mutex::new(())), Arc::new(SystemClock));
        let passed = Arc::clone(&gate);
        let lease = Lease::of_node(Arc::<SystemClock>::clone(&clock));
        let settings = NodeSettings {
            database: self.open(),
            local: Arc::new(SqliteStore::open(dir).expect("opens")),
            node: id.to_owned(),
            name: format!("node {id}"),
            data_dir: None,
            lease_length: self.lease,
            clock,
            put_in_force: Box::new(move || {
                drop(passed.lock());
                Box::pin(std::future::ready(Ok(())))
            }),
            lease: lease.clone(),
            callers: Arc::default(),
            usage_is_counted: true,
            runtime: runtime().handle().clone(),
            can_record: Box::new(|| true),
        };
        let node = Node::start(settings).expect("starts");
        TestNode { _node: node, lease, gate, dir: dir.to_owned(), _own_dir: None }
    }

    /// Runs this in a transaction that stays open until what is returned is dropped, as a holder of locks.
    pub(crate) fn hold(&self, sql: &str) -> Held {
        static KEYS: AtomicU32 = AtomicU32::new(1);
        let (key, name) = (KEYS.fetch_add(1, Ordering::SeqCst), self.name.clone());
        self.sql("CREATE TABLE IF NOT EXISTS released (key integer)");
        let held = format!(
            "SET search_path TO contactd;
             DO $$ BEGIN {sql}; PERFORM pg_advisory_lock({key});
             WHILE NOT EXISTS (SELECT 1 FROM released WHERE key = {key}) LOOP PERFORM pg_sleep(0.02); END LOOP; END $$"
        );
        let holder_of = name.clone();
        let holder = std::thread::spawn(move || drop(TestServer::shared().sql(&holder_of, &held)));
        let is_held = format!(
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = {key} AND granted"
        );
        eventually(|| self.sql(&is_held) == "1");
        Held { name, key, holder: Some(holder) }
    }

    /// Waits until a statement with this in its text waits for a lock.
    pub(crate) fn waits_for_lock(&self, text: &str) {
        let waiting = format!(
            "SELECT count(*) > 0 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
                 AND query LIKE '%{text}%'"
        );
        eventually(|| self.sql(&waiting) == "t");
    }

    /// Makes a change of details that changes nothing.
    pub(crate) fn change_nothing(&self) {
        self.change("details", "SELECT 1");
    }

    /// Waits until a copy holds the same as the database.
    pub(crate) fn assert_equal(&self, node: &TestNode) {
        let local = SqliteStore::open(node.dir()).expect("opens");
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let patience = Duration::from_secs(30);
        let verified = runtime.block_on(verify(&local, &self.open(), patience)).expect("verifies");
        assert!(matches!(verified, Verified::Equal(_)), "{verified:?}");
    }
}

/// Where all nodes wait for the database.
fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime")
    })
}

/// An open transaction.
pub(crate) struct Held {
    name: String,
    key: u32,
    holder: Option<JoinHandle<()>>,
}

impl Drop for Held {
    fn drop(&mut self) {
        TestServer::shared().sql(&self.name, &format!("INSERT INTO contactd.released VALUES ({})", self.key));
        let _ = self.holder.take().map(JoinHandle::join);
    }
}

fn open(url: &str) -> Arc<PostgresStore> {
    let settings = Settings {
        url: url.parse().expect("a URL"),
        patience: Duration::from_secs(5),
        answer: Duration::from_secs(2),
        makes_tables: true,
        on_wait: Box::new(|| {}),
    };
    let runtime = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(PostgresStore::open(settings))
    });
    Arc::new(runtime.join().expect("ends").expect("opens"))
}

pub(crate) struct TestNode {
    // Dropped before the directory.
    _node: Node,
    pub(crate) lease: Lease,
    /// While somebody has locked it, the node hangs where it puts changes in force, as if it was paused.
    pub(crate) gate: Arc<Mutex<()>>,
    dir: PathBuf,
    _own_dir: Option<tempfile::TempDir>,
}

impl TestNode {
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Waits until it may answer lookups.
    pub(crate) fn is_ready(&self) {
        let until = Instant::now() + PATIENCE;
        while !self.lease.holds() {
            assert!(Instant::now() < until, "it gets no lease");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

pub(crate) fn eventually(mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < until, "it does not happen");
        std::thread::sleep(Duration::from_millis(20));
    }
}
