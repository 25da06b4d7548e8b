//! What goes wrong around a cluster (clocks, links, locks, standbys, a database that is away), and what the operator is told.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use contactd_testing::{TestServer, program};

use crate::audit::Faulty;
use crate::cluster::{cut_off, machine, named, nodes, on_its_own_server};
use crate::erase::in_seconds;
use crate::fixture::{ADA, MIRA};
use crate::http::Request;
use crate::service::{KilledAtEnd, Output, PHONE, Service, Site, eventually};

/// Short, so that tests are; a clock is compared at every heartbeat.
const LEASE: &str = "lease = \"6s\"\n";

/// What `doctor` says, which never takes longer than this.
fn examined(site: &Site) -> Output {
    let began = Instant::now();
    let doctor = site.run(&["doctor"]);
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}: {doctor:?}", began.elapsed());
    doctor
}

fn fails_with(doctor: &Output, words: &str) {
    assert!(doctor.code == 1 && doctor.stdout.contains(words), "not {words:?}: {doctor:?}");
}

fn state_of(site: &Site, name: &str) -> String {
    let nodes = site.list(&["node", "list"]);
    let node = nodes.iter().find(|node| node["name"] == name).expect("a node");
    node["state"].as_str().expect("a text").to_owned()
}

#[test]
fn a_node_whose_clock_is_wrong_serves_only_if_no_other_node_says_so() {
    let (nodes, _) = nodes(&["a"], LEASE);
    let a = &nodes[0];
    let token = a.site.issue("token", "limited", &["--quota", "6/day"]);
    let b = machine(a.site.database().expect("a database"), &a.site);
    let b = Faulty::on(b, &token, "ok", &named("b", LEASE));
    assert_eq!(b.service.look_up(PHONE, &token, ADA).status, 200);
    b.fail("clock 86400");
    let refused = |node: &Service| node.send(&Request::get("/readyz")).status == 503;
    eventually("b does not serve", || refused(&b.service));
    b.service.eventually_logged(
        "the clock of this node differs from the database's and from those of the other nodes",
    );
    eventually("it is listed", || state_of(&a.site, "b") == "wrongClock");
    fails_with(&examined(&a.site), " s ahead of the database's, and differs from those of the other nodes");
    assert_eq!(state_of(&a.site, "a"), "serving");
    // A little is a warning.
    b.fail("clock 5");
    eventually("b serves again", || !refused(&b.service));
    let doctor = examined(&a.site);
    assert!(doctor.stdout.contains("warn  clock         the clock of node b is "), "{doctor:?}");
}

#[test]
fn the_day_of_a_quota_is_that_of_the_database_whatever_clock_a_node_has() {
    let site = Site::on(&TestServer::shared().database());
    site.import_people();
    let token = site.issue("token", "limited", &["--quota", "3/day"]);
    let node = Faulty::on(site, &token, "ok", &named("a", LEASE));
    let status = || node.service.look_up(PHONE, &token, ADA).status;
    for _ in 0..3 {
        assert_eq!(status(), 200);
    }
    assert_eq!(status(), 429);
    node.fail("clock 86400");
    node.service.eventually_logged(
        "the clocks of this node and of the database differ, and no other node's clock contradicts",
    );
    assert_eq!(status(), 429, "for the database, it is the same day");
    let seconds = node.service.metric("contactd_clock_difference_seconds");
    assert!(seconds.is_some_and(|seconds| seconds > 86_000), "{seconds:?}");
}

#[test]
fn over_a_slow_link_a_node_joins_and_an_opt_out_reaches_it() {
    let (a, b, road, token) = cut_off("lease = \"60s\"\n", &[]);
    // A round trip takes 600 ms, so connecting takes longer than a host that is silent may take on a fast link.
    road.delay.store(300, Ordering::SeqCst);
    road.cut();
    road.mend();
    a.site.ok(&["suppress", ADA]);
    assert_eq!(b.look_up(PHONE, &token, ADA).status, 404);
    let b = b.stop().serve_with(&[], &named("b", "lease = \"60s\"\n"));
    assert_eq!(b.look_up(PHONE, &token, MIRA).status, 200);
    b.site.ok(&["unsuppress", ADA]);
    assert_eq!(a.look_up(PHONE, &token, ADA).status, 200);
}

#[test]
fn a_slow_link_is_named_by_doctor_the_log_and_a_metric_and_is_not_called_down() {
    let (_, b, road, _) = cut_off("lease = \"60s\"\n", &[]);
    road.delay.store(500, Ordering::SeqCst);
    let doctor = examined(&b.site);
    let says = |words: &str| assert!(doctor.stdout.contains(words), "not {words:?}: {doctor:?}");
    says("warn  database      it answers, but slowly: one answer takes 1");
    says("ok    lookups       they are answered now\n");
    assert_eq!(doctor.code, 0);
    b.eventually_logged("the database is slow: it answers, but slowly: one answer takes 1");
    assert_eq!(
        (b.metric("contactd_database_answer_seconds"), b.metric("contactd_store_up")),
        (Some(1), Some(1))
    );
}

#[test]
fn a_node_says_that_a_failover_can_lose_what_the_database_acknowledges() {
    let (server, node, _) = on_its_own_server(&[]);
    let standby = server.standby();
    let node = node.stop().serve_with(&[], &named("a", LEASE));
    node.eventually_logged(
        "it acknowledges changes before a standby has them: a failover can lose opt-outs and revocations. Set",
    );
    let doctor = examined(&node.site);
    assert!(doctor.stdout.contains("warn  database      it acknowledges changes before"), "{doctor:?}");
    standby.stop();
}

/// A session of somebody else, until it is dropped.
struct Session(Child);

impl Session {
    fn of(url: &str, sql: &str) -> Self {
        let mut psql = Command::new(program("psql"));
        let text = format!("{sql}; SELECT pg_sleep(600)");
        let child = psql.args(["-d", url, "-c", &text]).stdout(Stdio::null()).spawn();
        Self(child.expect("psql runs"))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_lock_of_somebody_else_is_named_with_its_process() {
    let (server, node, _) = on_its_own_server(&[]);
    let url = node.site.database().expect("a database");
    let impatient = node.site.file("impatient.toml", "[cluster]\npatience = \"3s\"\n");
    let session = Session::of(url, "BEGIN; LOCK TABLE contactd.suppressions, contactd.counters");
    let held = "SELECT pid FROM pg_locks WHERE relation = 'contactd.counters'::regclass AND mode = 'AccessExclusiveLock' AND granted";
    let mut pid = String::new();
    eventually("it has the lock", || {
        pid = server.sql(url.rsplit('/').next().expect("a name"), held);
        !pid.is_empty()
    });
    let words = format!(
        "another program (psql, database user contactd, backend pid {pid}) blocks contactd's tables with an open transaction, for "
    );
    fails_with(&examined(&node.site), &words);
    let refused = node.site.run(&["suppress", ADA, "--config", &impatient]);
    assert!(refused.code == 1 && refused.stderr.contains(&words), "{refused:?}");
    node.eventually_logged(&words);
    drop(session);
    server.sql("postgres", &format!("SELECT pg_terminate_backend({pid})"));
    node.site.ok(&["suppress", ADA]);
}

#[test]
fn a_lock_of_an_administrator_is_named_to_a_user_who_is_none() {
    let server = TestServer::start();
    let url = server.database();
    let name = url.rsplit('/').next().expect("a name");
    server.sql("postgres", "CREATE ROLE clerk LOGIN");
    server.sql("postgres", &format!("ALTER DATABASE {name} OWNER TO clerk"));
    let site = Site::on(&url.replace("contactd@", "clerk@"));
    site.import_people();
    let node = site.serve_with(&[], &named("a", LEASE));
    let _session = Session::of(&url, "BEGIN; ALTER TABLE contactd.counters ADD COLUMN note text");
    let words = "another program (psql, database user contactd, backend pid ";
    eventually("doctor says so", || examined(&node.site).stdout.contains(words));
    fails_with(
        &examined(&node.site),
        ") blocks contactd's tables with an open transaction: commit or roll back there",
    );
    node.eventually_logged("the lease of this node has ended, so it answers no lookups");
    let log = node.log.text();
    let first = log.lines().find(|line| line.contains("\"WARN\"")).expect("a line");
    assert!(first.contains(words) && !log.contains("internal error"), "{log}");
    eventually("the metric says so", || node.metric("contactd_store_up") == Some(0));
    server.sql("postgres", "GRANT pg_monitor TO clerk");
    fails_with(&examined(&node.site), ") blocks contactd's tables with an open transaction, for ");
    server.sql("postgres", "ALTER ROLE clerk CONNECTION LIMIT 0");
    fails_with(
        &examined(&node.site),
        "no connection is left, for everybody (max_connections) or for this user or database",
    );
}

#[test]
fn a_row_that_somebody_else_changes_is_named_while_a_node_waits_for_it() {
    let (_server, node, _) = on_its_own_server(&[]);
    let url = node.site.database().expect("a database");
    let _session = Session::of(url, "BEGIN; UPDATE contactd.nodes SET name = 'another'");
    node.eventually_logged("another program (psql, database user contactd, backend pid ");
    let is_named = || examined(&node.site).stdout.contains("FAIL  database      another program (psql, ");
    eventually("doctor names it while the node waits", is_named);
}

#[test]
fn a_lock_that_keeps_nobody_waiting_is_not_called_the_cause() {
    let (server, node, _) = on_its_own_server(&[]);
    let url = node.site.database().expect("a database");
    let held = "BEGIN; ANALYZE contactd.details; DELETE FROM contactd.imports WHERE FALSE";
    let _session = Session::of(url, held);
    let modes = "SELECT count(DISTINCT mode) FROM pg_locks JOIN pg_stat_activity USING (pid)
        WHERE application_name = 'psql' AND mode IN ('ShareUpdateExclusiveLock', 'RowExclusiveLock') AND granted";
    eventually("it has the locks", || server.sql(url.rsplit('/').next().expect("a name"), modes) == "2");
    assert_eq!(examined(&node.site).code, 0, "nothing is wrong");
    server.sql("postgres", "ALTER SYSTEM SET synchronous_standby_names TO 'elsewhere'");
    server.sql("postgres", "SELECT pg_reload_conf()");
    node.eventually_logged("no standby confirms them");
    fails_with(&examined(&node.site), "no standby confirms them");
    assert!(!node.log.text().contains("another program"), "{}", node.log.text());
}

#[test]
fn what_expires_tomorrow_outlives_a_node_and_a_command_whose_clocks_are_a_day_ahead() {
    let site = Site::on(&TestServer::shared().database());
    let token = site.token(&[]);
    site.ok(&["put", ADA, "--phone", "+14155550101", "--expires-at", &in_seconds(6 * 3_600)]);
    let config = named("a", &format!("{LEASE}[retention]\nsweep_every = \"1s\"\n"));
    let node = Faulty::on(site, &token, "clock 86400", &config);
    let site = &node.service.site;
    let wrong = [("LD_PRELOAD", site.place("faults.so")), ("FAULTS", site.place("faults"))];
    let wrong = wrong.each_ref().map(|(name, value)| (*name, value.as_str()));
    let swept = site.run_with(&["sweep", "--json"], "", &wrong);
    assert!(swept.code == 0 && swept.json()["expiredRemoved"] == 0, "{swept:?}");
    // What has expired by both clocks is removed, so the node sweeps.
    site.ok(&["put", MIRA, "--phone", "+14155550102", "--expires-at", &in_seconds(2)]);
    eventually("it sweeps", || site.json(&["stats"])["profiles"] == 1);
    assert!(site.ok(&["export"]).contains("+14155550101"), "it expires in six hours");
}

#[test]
fn a_program_that_reads_the_files_of_a_node_is_not_called_a_fault_of_the_database() {
    let (nodes, _) = nodes(&["a"], LEASE);
    let node = &nodes[0];
    let read = "import sqlite3, sys, time
file = sqlite3.connect(sys.argv[1], isolation_level=None)
file.execute('BEGIN')
file.execute('SELECT count(*) FROM sqlite_master').fetchall()
print('reads', flush=True)
time.sleep(600)";
    let mut python = Command::new("python3");
    let reading =
        python.args(["-c", read]).arg(node.data().join("details.db")).stdout(Stdio::piped()).spawn();
    let mut reader = KilledAtEnd(reading.expect("runs"));
    let mut said = BufReader::new(reader.0.stdout.take().expect("a pipe")).lines();
    assert_eq!(said.next().expect("a line").expect("text"), "reads");
    node.site.ok(&["remove", ADA]);
    node.eventually_logged("this node cannot overwrite removed details in its own files now; it goes on trying. An erasure waits");
    node.has_logged("a program on this machine reads details.db for long");
    assert!(!node.log.text().contains("renew its lease"), "{}", node.log.text());
    drop(reader);
    node.eventually_logged("this node has overwritten what was removed");
}

#[test]
fn commits_that_no_standby_confirms_are_named_by_doctor_the_log_and_commands() {
    let (server, node, token) = on_its_own_server(&[]);
    server.sql("postgres", "ALTER SYSTEM SET synchronous_standby_names TO 'elsewhere'");
    server.sql("postgres", "SELECT pg_reload_conf()");
    let words = "no standby confirms them (synchronous_standby_names is 'elsewhere', 0 standbys are connected). Start one that";
    node.eventually_logged(words);
    fails_with(&examined(&node.site), words);
    assert_eq!(node.metric("contactd_store_up"), Some(0));
    let impatient = node.site.file("impatient.toml", "[cluster]\npatience = \"3s\"\n");
    let unknown = node.site.run(&["suppress", MIRA, "--config", &impatient]);
    assert!(unknown.code == 1 && unknown.stderr.contains(words), "{unknown:?}");
    assert_eq!(node.look_up(PHONE, &token, ADA).status, 200, "its lease lasts");
    server.sql("postgres", "ALTER SYSTEM RESET synchronous_standby_names");
    server.sql("postgres", "SELECT pg_reload_conf()");
    eventually("it follows again", || node.log.text().contains("this node follows the database again"));
}

#[test]
fn doctor_says_within_seconds_that_the_database_is_away_or_hangs() {
    let (server, node, _) = on_its_own_server(&[]);
    server.freeze();
    let began = Instant::now();
    fails_with(&examined(&node.site), "FAIL  database      ");
    node.eventually_logged("it did not answer in time");
    // A third of what a statement and the patience of a server come to.
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    eventually("the metric grows", || node.metric("contactd_copy_lag_seconds").is_some_and(|lag| lag >= 3));
    server.thaw();
    server.stop();
    fails_with(
        &examined(&node.site),
        ": connection refused: PostgreSQL does not run there, or listens elsewhere; start it, or check host and port",
    );
    eventually("doctor says that nobody is answered", || {
        examined(&node.site)
            .stdout
            .contains("FAIL  lookups       they are answered 503 now: this node has no lease")
    });
    server.run();
}

#[test]
fn a_node_that_starts_without_its_database_listens_and_waits_for_it() {
    let (server, node, token) = on_its_own_server(&[]);
    let site = node.stop();
    server.stop();
    let mut command = site.command();
    command.args(["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]);
    let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("starts");
    let mut said =
        BufReader::new(child.stderr.take().expect("a pipe")).lines().map(|line| line.expect("text"));
    let mut until = |words: &str| said.find(|line| line.contains(words)).expect(words);
    let waiting = until("waiting for the database; listening on ");
    let address =
        waiting.split("listening on ").nth(1).and_then(|rest| rest.split(',').next()).expect("an address");
    let address: std::net::SocketAddr = address.parse().expect("an address");
    until("the database cannot be used: this node waits for it");
    let status = |request: &Request| {
        let mut connection = crate::http::Connection::open(address);
        connection.send(request.bytes());
        let reply = connection.reply();
        (reply.status, reply.header("retry-after").map(str::to_owned))
    };
    let look_up = Request::lookup(PHONE, crate::http::profile_body(ADA)).token(&token);
    let refused = (503, Some("1".to_owned()));
    assert_eq!((status(&look_up), status(&Request::get("/readyz"))), (refused.clone(), refused));
    assert_eq!(status(&Request::get("/healthz")).0, 200);
    server.run();
    eventually("it serves", || status(&look_up).0 == 200);
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::TERM)
        .expect("signals");
    assert!(child.wait().expect("ends").success());
}
