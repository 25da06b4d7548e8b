//! Several nodes on one database.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use contactd_testing::{TestServer, program};
use rustix::process::Signal;
use serde_json::json;

use crate::admin_api::AdminApi;
use crate::fixture::{ADA, ADA_PHONE, EVE, MIRA};
use crate::http::Request;
use crate::service::{EMAIL, Output, PHONE, Service, Site, eventually, sqlite};

/// A machine with the keys of another one.
pub(crate) fn machine(url: &str, keys_of: &Site) -> Site {
    let site = Site::on(url);
    let keys = site.data().join("keys");
    std::fs::create_dir_all(&keys).expect("creates");
    std::fs::set_permissions(site.data(), PermissionsExt::from_mode(0o700)).expect("sets");
    std::fs::copy(keys_of.data().join("keys/digest-001.key"), keys.join("digest-001.key")).expect("copies");
    site
}

pub(crate) fn named(name: &str, more: &str) -> String {
    format!("[cluster]\nname = \"{name}\"\n{more}")
}

/// Nodes a, b, … on a new database with the invented people, and a token.
pub(crate) fn nodes(names: &[&str], lease: &str) -> (Vec<Service>, String) {
    let url = TestServer::shared().database();
    let first = Site::on(&url);
    first.import_people();
    let token = first.token(&[]);
    let mut sites: Vec<Site> = names.iter().skip(1).map(|_| machine(&url, &first)).collect();
    sites.insert(0, first);
    let start = |(site, name): (Site, &&str)| site.serve_with(&[], &named(name, lease));
    (sites.into_iter().zip(names).map(start).collect(), token)
}

/// What `node list` says: names and states.
fn listed(site: &Site) -> Vec<(String, String)> {
    let text = |value: &serde_json::Value| value.as_str().expect("a text").to_owned();
    let nodes = site.list(&["node", "list"]);
    nodes.iter().map(|node| (text(&node["name"]), text(&node["state"]))).collect()
}

pub(crate) fn id_of(site: &Site, name: &str) -> String {
    let nodes = site.list(&["node", "list"]);
    let node = nodes.iter().find(|node| node["name"] == name).expect("a node");
    node["id"].as_str().expect("an id").to_owned()
}

#[test]
fn an_opt_out_on_one_node_is_in_force_on_all_when_the_command_returns() {
    let (nodes, token) = nodes(&["a", "b", "c"], "");
    for node in &nodes {
        assert_eq!(node.look_up(PHONE, &token, ADA).json()["phoneNumber"], ADA_PHONE);
    }
    for _ in 0..3 {
        nodes[0].site.ok(&["suppress", ADA]);
        for node in &nodes {
            assert_eq!(node.look_up(PHONE, &token, ADA).status, 404);
        }
        nodes[1].site.ok(&["unsuppress", ADA]);
        for node in &nodes {
            assert_eq!(node.look_up(PHONE, &token, ADA).status, 200);
        }
    }
    nodes[2].site.ok(&["token", "revoke", "test"]);
    for node in &nodes {
        assert_eq!(node.look_up(PHONE, &token, ADA).status, 401);
    }
    nodes[1].site.ok(&["erase", EVE]);
    for node in &nodes {
        node.site.run(&["node", "verify"]).mentions(0, "equal: the copy holds what the database holds\n");
        for file in ["details.db", "details.db-wal", "contactd.db"] {
            let bytes = std::fs::read(node.data().join(file)).unwrap_or_default();
            assert!(
                !bytes.windows(9).any(|part| part == b"eve-nuvel"),
                "{file} has traces of an erased person"
            );
        }
    }
    let serving = |name: &str| (name.to_owned(), "serving".to_owned());
    assert_eq!(listed(&nodes[0].site), [serving("a"), serving("b"), serving("c")]);
}

#[test]
fn a_node_that_is_paused_discloses_nothing_that_was_opted_out_meanwhile() {
    let (nodes, token) = nodes(&["a", "b"], "lease = \"2s\"\n");
    let [a, b] = &nodes[..] else { panic!("two nodes") };
    for _ in 0..3 {
        let mut connection = b.connect();
        b.pause();
        // The request waits in the socket, and is read after the node goes on.
        let body = crate::http::profile_body(ADA);
        connection.send(Request::lookup(PHONE, body).token(&token).bytes());
        let suppressed = a.site.run(&["suppress", ADA]);
        b.signal(Signal::CONT);
        suppressed.mentions(
            0,
            "contactd: node b did not confirm this. Its lease has ended, so it answers no lookup before it has the change\n",
        );
        let status = connection.reply().status;
        assert!([404, 503].contains(&status), "{status}");
        eventually("b serves again", || b.look_up(PHONE, &token, MIRA).status == 200);
        assert_eq!(b.look_up(PHONE, &token, ADA).status, 404);
        a.site.ok(&["unsuppress", ADA]);
    }
}

/// A way to the database that can be cut, and slow.
pub(crate) struct Road {
    pub(crate) address: SocketAddr,
    /// How many milliseconds everything takes in each direction.
    pub(crate) delay: Arc<AtomicU64>,
    is_cut: Arc<AtomicBool>,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Road {
    pub(crate) fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
        let address = listener.local_addr().expect("an address");
        let (is_cut, open) = (Arc::new(AtomicBool::new(false)), Arc::<Mutex<Vec<TcpStream>>>::default());
        let delay = Arc::<AtomicU64>::default();
        let road =
            Self { address, delay: Arc::clone(&delay), is_cut: Arc::clone(&is_cut), open: Arc::clone(&open) };
        std::thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                if is_cut.load(Ordering::SeqCst) {
                    continue;
                }
                let Ok(far) = TcpStream::connect(("127.0.0.1", port)) else { continue };
                let clone = |stream: &TcpStream| stream.try_clone().expect("clones");
                open.lock().expect("a lock").extend([clone(&near), clone(&far)]);
                for (mut from, mut to) in [(clone(&near), clone(&far)), (far, near)] {
                    let delay = Arc::clone(&delay);
                    std::thread::spawn(move || {
                        let mut bytes = [0; 16384];
                        while let Ok(read @ 1..) = from.read(&mut bytes) {
                            std::thread::sleep(Duration::from_millis(delay.load(Ordering::SeqCst)));
                            if to.write_all(&bytes[..read]).is_err() {
                                break;
                            }
                        }
                        let _ = to.shutdown(Shutdown::Both);
                    });
                }
            }
        });
        road
    }

    pub(crate) fn cut(&self) {
        self.is_cut.store(true, Ordering::SeqCst);
        for stream in self.open.lock().expect("a lock").drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    pub(crate) fn mend(&self) {
        self.is_cut.store(false, Ordering::SeqCst);
    }
}

/// Nodes a and b on a new database with the invented people, the road from b to it, and a token made with these flags.
pub(crate) fn cut_off(lease: &str, token: &[&str]) -> (Service, Service, Road, String) {
    let server = TestServer::shared();
    let url = server.database();
    let first = Site::on(&url);
    first.import_people();
    let token = first.token(token);
    let road = Road::to(server.port());
    let other = machine(&url.replace(&server.port().to_string(), &road.address.port().to_string()), &first);
    let a = first.serve_with(&[], &named("a", lease));
    let b = other.serve_with(&[], &named("b", lease));
    (a, b, road, token)
}

/// A node on a database server of its own, with the invented people, and a token made with these flags.
pub(crate) fn on_its_own_server(token: &[&str]) -> (TestServer, Service, String) {
    let server = TestServer::start();
    let site = Site::on(&server.database());
    site.import_people();
    let token = site.token(token);
    (server, site.serve(), token)
}

#[test]
fn a_node_that_is_cut_off_answers_503_when_its_lease_ends_and_serves_again_by_itself() {
    let (a, b, road, token) = cut_off("lease = \"2s\"\n", &[]);
    road.cut();
    assert_eq!(b.look_up(PHONE, &token, ADA).status, 200, "its lease lasts");
    let began = Instant::now();
    a.site.ok(&["suppress", ADA]);
    assert_eq!(b.look_up(PHONE, &token, ADA).status, 503);
    assert!(began.elapsed().as_millis() > 1_000, "it waited for the lease");
    let reply = b.look_up(PHONE, &token, MIRA);
    assert!(reply.status == 503 && reply.body.contains("service_unavailable"), "{}", reply.body);
    assert_eq!(b.send(&Request::get("/readyz")).status, 503);
    assert!(b.metrics().contains("contactd_lease_seconds 0\n"), "metrics are there without the database");
    assert_eq!(listed(&a.site)[1], ("b".to_owned(), "silent".to_owned()));
    road.mend();
    eventually("b serves again", || b.look_up(PHONE, &token, MIRA).status == 200);
    assert_eq!(b.look_up(PHONE, &token, ADA).status, 404);
}

#[test]
fn lookups_do_not_notice_a_database_that_is_away_for_less_than_the_lease() {
    let (server, node, token) = on_its_own_server(&[]);
    server.stop();
    assert_eq!(node.look_up(PHONE, &token, ADA).status, 200);
    eventually("metrics say so", || node.metrics().contains("contactd_store_up 0\n"));
    eventually("the node says so", || node.log.text().contains("goes on trying"));
    assert_eq!(node.look_up(PHONE, &token, ADA).status, 200);
    server.run();
    eventually("metrics say that it is back", || node.metrics().contains("contactd_store_up 1\n"));
    node.site.ok(&["suppress", ADA]);
    assert_eq!(node.look_up(PHONE, &token, ADA).status, 404);
    node.has_logged("this node cannot renew its lease now; it answers lookups until the lease ends");
    node.has_logged("this node follows the database again");
}

#[test]
fn a_node_that_is_killed_and_started_again_holds_what_the_database_holds() {
    let (mut nodes, token) = nodes(&["a", "b"], "lease = \"2s\"\n");
    for round in 0..5 {
        let b = nodes.pop().expect("a node");
        let a = &nodes[0];
        let person = format!("https://www.linkedin.com/in/quell-{round}");
        let put = a.site.spawn(&["put", &person, "--phone", "+14155550142", "--source", "hand"]);
        let b = b.kill();
        let put = put.wait_with_output().expect("ends");
        assert!(put.status.success());
        a.site.ok(&["remove", &person, "--source", "hand"]);
        a.site.ok(&["put", &person, "--phone", "+14155550143", "--source", "hand"]);
        let b = b.serve_with(&[], &named("b", "lease = \"2s\"\n"));
        assert_eq!(b.look_up(PHONE, &token, &person).json()["phoneNumber"], "+14155550143");
        b.site.ok(&["node", "verify"]);
        nodes.push(b);
    }
}

#[test]
fn a_copy_that_was_changed_is_found_and_what_verify_advises_mends_it() {
    let (mut nodes, token) = nodes(&["a"], "");
    let node = nodes.pop().expect("a node");
    let change = "DELETE FROM details WHERE id IN (SELECT min(id) FROM details)";
    sqlite(&node.data().join("details.db"), change);
    node.site.run(&["node", "verify"]).mentions(
        1,
        "DIFFERENT: stop this node, `contactd node forget` its id (`contactd node list` shows it), and start it again: it copies everything anew\n",
    );
    let site = node.stop();
    let id = id_of(&site, "a");
    site.ok(&["node", "forget", &id]);
    let node = site.serve_with(&[], &named("a", ""));
    assert_eq!(node.look_up(EMAIL, &token, EVE).status, 200);
    node.site.ok(&["node", "verify"]);
}

#[test]
fn a_node_is_forgotten_only_if_it_cannot_answer() {
    let (mut nodes, _) = nodes(&["a", "b"], "lease = \"2s\"\n");
    let b = nodes.pop().expect("a node");
    let a = &nodes[0].site;
    let id = id_of(a, "b");
    a.run(&["node", "forget", &id]).mentions(1, "contactd: node b may answer lookups for another ");
    a.run(&["node", "forget", &id, "--yes"]).mentions(
        1,
        "contactd: node b is running and renews its lease. Stop it first: a running node would register again\n",
    );
    let recorded = || a.events(&["--operation", "node forget"]).len();
    eventually("both attempts are on record, also if node b took them", || recorded() == 2);
    drop(b.kill());
    a.run(&["node", "forget", &id, "--yes"])
        .mentions(0, "node b is forgotten: no change waits for it, and nothing is kept for it (");
    assert_eq!(listed(a), [("a".to_owned(), "serving".to_owned())]);
    a.run(&["node", "forget", &id]).says(
        1,
        format!("contactd: there is no node `{id}`; `contactd node list` shows their ids and names\n"),
    );
    eventually("each attempt is on record", || recorded() == 4);
}

#[test]
fn a_node_is_forgotten_by_its_name_unless_another_has_the_same() {
    let (mut nodes, _) = nodes(&["a", "b", "b"], "");
    nodes.drain(1..).for_each(|node| drop(node.stop()));
    let a = &nodes[0].site;
    let known = a.list(&["node", "list"]);
    let ids: Vec<&str> = known[1..].iter().map(|node| node["id"].as_str().expect("an id")).collect();
    a.run(&["node", "forget", "b"]).says(
        1,
        format!(
            "contactd: 2 nodes have the name `b`: give the id of one of them; they are {}\n",
            ids.join(", ")
        ),
    );
    a.ok(&["node", "forget", ids[0]]);
    a.ok(&["node", "forget", "b"]);
    assert_eq!(listed(a), [("a".to_owned(), "serving".to_owned())]);
}

#[test]
fn a_node_that_cannot_write_its_journal_is_not_listed_as_serving() {
    let (nodes, token) = nodes(&["a", "b"], "lease = \"3s\"\n");
    let [a, b] = &nodes[..] else { panic!("two nodes") };
    std::fs::remove_dir_all(b.site.data()).expect("removes");
    eventually("it is listed", || {
        let _ = b.look_up(PHONE, &token, ADA);
        listed(&a.site)[1] == ("b".to_owned(), "journalDown".to_owned())
    });
    assert_eq!(b.send(&Request::get("/readyz")).status, 503);
    let examined = a.site.run(&["doctor"]);
    assert!(
        examined.stdout.contains("node b runs and answers no lookups: its audit journal cannot be written"),
        "{examined:?}"
    );
}

#[test]
fn opt_outs_that_wait_for_a_node_do_not_keep_the_console_from_answering() {
    let (mut nodes, _) = nodes(&["a", "b"], "lease = \"10s\"\n");
    drop(nodes.pop().expect("a node").kill());
    let privacy = AdminApi::with_role(&nodes[0], "privacy");
    let answered = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for number in 0..20 {
            let (privacy, answered) = (&privacy, &answered);
            scope.spawn(move || {
                let whom = json!({ "q": format!("https://www.linkedin.com/in/waits-{number:02}") });
                let reply = privacy.post("/people/opt-out", &whom);
                assert_eq!(
                    (reply.status, &reply.json()["inForce"]),
                    (200, &json!(true)),
                    "{}",
                    reply.shown()
                );
                answered.fetch_add(1, Ordering::SeqCst);
            });
        }
        eventually("they are all stored", || {
            nodes[0].site.json(&["stats"])["suppressions"].as_u64() >= Some(20)
        });
        assert_eq!(privacy.get("/jobs").status, 200);
        assert!(nodes[0].metrics().contains("contactd_"));
        assert_eq!(answered.load(Ordering::SeqCst), 0, "all of them still wait for the node that was killed");
    });
}

#[test]
fn an_erasure_names_whom_it_erased_also_if_a_node_is_away() {
    let (mut nodes, _) = nodes(&["a", "b"], "lease = \"1s\"\n");
    drop(nodes.pop().expect("a node").stop());
    let site = &nodes[0].site;
    let erased = Output::from(site.command().args(["erase", EVE, "--json"]).output().expect("runs"));
    let report = erased.json();
    assert!(report["detailsRemoved"].as_u64() > Some(0) && report["onFile"] == true, "{report}");
    erased.mentions(1, " removed; the person is suppressed (database ");
    let left = "contactd: nothing discloses what was removed, but these nodes have not removed all traces from their files: b. They do \
                it before they answer lookups again; if one is gone for good, delete its files and run `contactd node forget`\n";
    assert!(erased.stderr.ends_with(left), "{erased:?}");
    // Nobody is on file under a mistyped name, and that is said too.
    let nobody = site.run(&["erase", "https://www.linkedin.com/in/nobody-here"]);
    nobody.mentions(1, "there was nothing to remove").mentions(1, "nobody is on file");
}

#[test]
fn an_erasure_says_what_postgresql_keeps() {
    let (nodes, _) = nodes(&["a"], "");
    let erased = Output::from(nodes[0].site.command().args(["erase", EVE]).output().expect("runs"));
    erased.mentions(0, " removed from the database and from the copies of all nodes; ");
    erased.mentions(0, "\nthe database keeps removed rows on its own disks for a while: ");
}

#[test]
fn verify_warns_before_it_advises_to_copy_anew_from_a_database_that_holds_less() {
    let (mut nodes, _) = nodes(&["a"], "");
    let node = nodes.pop().expect("a node");
    let name = node.site.database().and_then(|url| url.rsplit('/').next()).expect("a name");
    TestServer::shared().sql(name, "DELETE FROM contactd.details");
    node.site.run(&["node", "verify"]).mentions(
        1,
        "DIFFERENT: the database holds less than this copy, which may be the only place that has the rest. ",
    );
}

#[test]
fn an_error_on_connecting_says_what_to_check() {
    let url = TestServer::shared().database();
    for (url, words) in [
        (
            format!("{url}-gone"),
            "there is no such database: check its name in the URL, or create it (error 3D000)",
        ),
        (
            url.replace("contactd@", "somebody:SECRET@"),
            "it does not let this user connect: check the user in the URL, whether the server wants TLS (sslrootcert), and its \
             pg_hba.conf (error 28000)",
        ),
    ] {
        let refused = Site::on(&url).run(&["stats"]);
        assert!(!refused.mentions(1, words).stderr.contains("SECRET"), "{refused:?}");
    }
}

#[test]
fn a_node_stopped_in_order_gives_its_lease_back_and_nobody_waits_for_it() {
    let (mut nodes, token) = nodes(&["a", "b"], "lease = \"10m\"\n");
    let b = nodes.pop().expect("a node").stop();
    let a = &nodes[0];
    assert_eq!(listed(&a.site)[1], ("b".to_owned(), "stopped".to_owned()));
    let suppressed = a.site.run(&["suppress", ADA]);
    assert_eq!((suppressed.code, suppressed.stderr.contains("node b")), (0, false), "{suppressed:?}");
    let b = b.serve_with(&[], &named("b", "lease = \"10m\"\n"));
    assert_eq!(b.look_up(PHONE, &token, ADA).status, 404);
    assert_eq!(b.look_up(EMAIL, &token, EVE).status, 200);
}

#[test]
fn commands_work_on_a_machine_without_a_node_and_are_on_record() {
    let (nodes, token) = nodes(&["a"], "");
    let url = nodes[0].site.database().expect("a database").to_owned();
    let desk = machine(&url, &nodes[0].site);
    desk.ok(&["suppress", ADA, "--ticket", "DSR-7"]);
    desk.ok(&["put", EVE, "--phone", "+14155550145", "--source", "hand"]);
    assert_eq!(nodes[0].look_up(PHONE, &token, EVE).json()["phoneNumber"], "+14155550145");
    assert_eq!(nodes[0].look_up(PHONE, &token, ADA).status, 404);
    assert_eq!(desk.run_recorded(&["subject", MIRA, "--json"]).code, 0);
    eventually("it is in the index of the cluster", || !desk.events(&["--operation", "subject"]).is_empty());
    let examined = desk.run(&["doctor"]);
    assert!(examined.stdout.contains("ok    cluster       1 of 1 nodes serve\n"), "{examined:?}");
    assert!(!desk.data().join("contactd.db").exists(), "it stays a machine without a node");
    eventually("what the node has shipped is verified", || {
        let verified = desk.run(&["audit", "verify"]);
        (verified.code, verified.stderr.as_str()) == (0, "")
    });
    let examined = desk.run(&["doctor"]);
    let shipped =
        "ok    journal       none on this machine; the database has those of nodes: 1, with lines: ";
    assert!(examined.stdout.contains(shipped), "{examined:?}");
    let subject = desk.run_recorded(&["subject", MIRA]);
    let read = "read from the index, which `contactd audit verify` last compared with the journal at ";
    assert!(subject.stderr.starts_with(read), "{subject:?}");
    desk.run(&["backup", &desk.place("a.backup")]).says(
        1,
        format!(
            "contactd: there is no node in {}; give the data directory of a node with --data DIR\n",
            desk.data().display()
        ),
    );
    drop(nodes);
    desk.run(&["subject", MIRA]).mentions(
        1,
        "no node runs that could take it into its journal; `contactd node list` shows the nodes",
    );
}

#[test]
fn a_database_that_is_restored_to_an_earlier_point_is_noticed_and_copied_anew() {
    let (nodes, token) = nodes(&["a"], "lease = \"2s\"\n");
    let node = &nodes[0];
    let url = node.site.database().expect("a database").to_owned();
    let dump = Command::new(program("pg_dump")).args(["--schema=contactd", &url]).output().expect("runs");
    assert!(dump.status.success());
    let dump = node.site.file("dump.sql", dump.stdout);
    node.site.ok(&["erase", ADA]);
    node.site.ok(&["put", EVE, "--phone", "+14155550144", "--source", "hand"]);
    assert_eq!(node.look_up(PHONE, &token, EVE).status, 200);
    // The node goes on meanwhile, and PostgreSQL may end this one of the two if both wait for each other.
    eventually("it is restored", || {
        Command::new(program("psql"))
            .args(["-qX", "-v", "ON_ERROR_STOP=1", "-1", "-d", &url])
            .args(["-c", "DROP SCHEMA contactd CASCADE", "-f", &dump])
            .status()
            .expect("runs")
            .success()
    });
    eventually("the node follows the other history", || node.look_up(PHONE, &token, EVE).status == 404);
    assert_eq!(node.look_up(PHONE, &token, ADA).status, 404, "her opt-out stays in force");
    node.site.ok(&["node", "verify"]);
    node.has_logged("this node answers 503 until it has copied everything");
}

#[test]
fn keys_databases_and_directories_that_do_not_belong_together_are_refused() {
    let url = TestServer::shared().database();
    let first = Site::on(&url);
    let made = Site::on(&url);
    made.run(&["stats"]).mentions(1, "there are no tables of contactd in this database");
    first.ok(&["token", "create", "crm"]);
    let key = std::fs::read_to_string(first.data().join("keys/digest-001.key")).expect("a key");
    made.run(&["stats"]).mentions(1, " is missing: copy keys/digest-*.key of a node to ");
    assert_eq!(made.run_with(&["stats"], "", &[("CONTACTD_DIGEST_KEYS", key.trim())]).code, 0);
    let wrong = made.run_with(&["stats"], "", &[("CONTACTD_DIGEST_KEYS", &"0".repeat(64))]);
    wrong.mentions(1, "do not belong to this store");

    first.run_with(&["stats"], "", &[("CONTACTD_STORE", "sqlite")]).says(
        1,
        format!(
            "contactd: {} belongs to a node of a cluster, whose store is a database: give its URL with --store postgres://… (or \
             CONTACTD_STORE, or `store` in the configuration file)\n",
            first.data().display()
        ),
    );
    let elsewhere = TestServer::shared().database();
    machine(&elsewhere, &first).ok(&["token", "create", "crm"]);
    first.run_with(&["stats"], "", &[("CONTACTD_STORE", &elsewhere)]).says(
        1,
        format!(
            "contactd: the node in {} belongs to another database; choose another directory with --data DIR\n",
            first.data().display()
        ),
    );
    let own = Site::embedded();
    own.ok(&["token", "create", "crm"]);
    let own = own.moved_to(&url);
    own.run_with(&["stats"], "", &[("CONTACTD_DIGEST_KEYS", key.trim())]).says(
        1,
        format!(
            "contactd: {} holds a store of its own, not the copy of a node. Choose another directory with --data DIR, or move \
             this store into the database with `contactd migrate --to postgres://…`\n",
            own.data().display()
        ),
    );
}

#[test]
fn the_backup_of_a_node_makes_a_new_node_and_keeps_its_journal_beside() {
    let (mut nodes, token) = nodes(&["a"], "");
    let node = nodes.pop().expect("a node");
    let backup = node.site.place("a.backup");
    node.site.run(&["backup", &backup]).mentions(
        0,
        "this is the backup of a node: its journal, its keys and its copy. Back up the database with its own tools\n",
    );
    node.site.ok(&["suppress", ADA]);
    let site = node.stop();
    std::fs::rename(site.data(), site.path("old")).expect("renames");
    site.run(&["restore", &backup]).says(2, "contactd: a backup is restored to a data directory: leave --store out. A database is restored with its own tools\n");
    let embedded = [("CONTACTD_STORE", "sqlite")];
    let restored = site.run_with(&["restore", &backup], "", &embedded);
    let data = site.place("data");
    restored.mentions(0, "this was the backup of a node, of ").mentions(
        0,
        format!(
            ": {data} has its digest keys now. Start it with --store; it joins the cluster as a new node, and copies everything\n\
             the key of second factors is not in a backup: if somebody has one, copy keys/second-factor.key of another node\n\
             the journal of that node is in {data}/audit-restored; `contactd audit verify --dir` verifies it\n"
        ),
    );
    let serve = ["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"];
    for args in [&["stats"][..], &["import", "-", "--source", "crm"], &serve] {
        site.run_with(args, "", &embedded)
            .mentions(1, "belongs to a node of a cluster, whose store is a database");
    }
    let node = site.serve();
    assert_eq!(node.look_up(PHONE, &token, ADA).status, 404, "opted out after the backup");
    assert_eq!(node.look_up(EMAIL, &token, EVE).status, 200);
    node.site.ok(&["node", "verify"]);
    assert_eq!(listed(&node.site).len(), 2, "the other one, which has stopped, and the new one");
    node.site.ok(&["audit", "verify"]);
    let dir = format!("{data}/audit-restored");
    let verified = node.site.run_with(&["audit", "verify", "--dir", &dir], "", &embedded);
    assert_eq!(verified.code, 0, "{verified:?}");
}
