//! What nodes and commands make of a database that is being restored, is empty, or is another one.

use std::process::Command;
use std::time::Duration;

use contactd_store_sqlite::SqliteStore;
use contactd_testing::{TestServer, program, psql};

use crate::cluster::{machine, named, nodes};
use crate::fixture::{ADA, EVE, MIRA, PEOPLE};
use crate::http::Request;
use crate::service::{PHONE, Service, Site, eventually};
use crate::shipping::sql;

const LEASE: &str = "lease = \"2s\"\n";

fn is_ready(node: &Service) -> bool {
    node.send(&Request::get("/readyz")).status == 200
}

/// A dump of a database in three parts: tables and rows without the opt-outs, the opt-outs, and the keys of tables.
fn dump(site: &Site, url: &str) -> [String; 3] {
    let dump = Command::new(program("pg_dump")).args(["--schema=contactd", url]).output().expect("runs");
    assert!(dump.status.success(), "{dump:?}");
    let dump = String::from_utf8(dump.stdout).expect("text");
    // Newer versions begin and end with a command that the parts alone cannot have.
    let dump: String = dump.split_inclusive('\n').filter(|line| !line.contains("restrict ")).collect();
    let keys = dump.find("ADD CONSTRAINT").and_then(|at| dump[..at].rfind("ALTER TABLE")).expect("keys");
    let (rows, keys) = dump.split_at(keys);
    let from = rows.find("COPY contactd.suppressions").expect("opt-outs");
    let to = from + rows[from..].find("\\.\n").expect("an end") + 3;
    let tables = format!("{}{}", &rows[..from], &rows[to..]);
    // The part that a program can run alone.
    let opt_outs = rows[from..to].to_owned();
    [("tables.sql", &*tables), ("opt-outs.sql", &opt_outs), ("keys.sql", keys)]
        .map(|(name, text)| site.file(name, text))
}

#[test]
fn a_node_answers_nothing_while_a_database_is_being_restored_and_goes_on_when_it_is_whole() {
    let (nodes, token) = nodes(&["a"], LEASE);
    let node = &nodes[0];
    let url = node.site.database().expect("a database").to_owned();
    node.site.ok(&["suppress", ADA]);
    let [tables, opt_outs, keys] = dump(&node.site, &url);
    // The dump is of an earlier point.
    node.site.ok(&["put", EVE, "--phone", "+14155550144", "--source", "hand"]);
    node.site.ok(&["token", "create", "later"]);
    psql(&url, &["-1", "-c", "DROP SCHEMA contactd CASCADE", "-f", &tables]);
    eventually("its lease ends", || !is_ready(node));
    for _ in 0..8 {
        std::thread::sleep(Duration::from_millis(250));
        assert!(!is_ready(node));
        let reply = node.look_up(PHONE, &token, ADA);
        assert_eq!((reply.status, reply.header("retry-after")), (503, Some("1")), "{}", reply.shown());
        let of_nobody = node.look_up(PHONE, &format!("ctd_{}", "0".repeat(40)), ADA);
        assert_eq!(of_nobody.status, 503, "whose token it is cannot be known: {}", of_nobody.shown());
    }
    assert_eq!(sql(&node.site, "SELECT count(*) FROM facts WHERE name = 'lineage'"), "1");
    psql(&url, &["-1", "-f", &opt_outs, "-f", &keys]);
    eventually("it follows the restored database", || is_ready(node));
    assert_eq!(node.look_up(PHONE, &token, ADA).status, 404, "she has opted out");
    node.site.ok(&["node", "verify"]);
    node.has_logged("the database is not whole");
}

#[test]
fn what_only_reads_makes_no_tables_and_a_node_keeps_its_copy_if_the_database_is_another_one() {
    let (mut nodes, token) = nodes(&["a"], LEASE);
    let node = nodes.pop().expect("a node");
    let desk = machine(node.site.database().expect("a database"), &node.site);
    sql(&desk, "DROP SCHEMA contactd CASCADE");
    let none = "the store cannot be used now: there are no tables of contactd in this database: check the URL. `contactd \
                serve` with an empty data directory, `import` and `migrate` make them\n";
    let config = desk.file("impatient.toml", "[cluster]\npatience = \"1s\"\n");
    for site in [&desk, &node.site] {
        for command in [&["stats"][..], &["node", "list"], &["audit", "verify"], &["token", "list"]] {
            site.run(&[command, &["--config", &config]].concat()).mentions(1, none);
        }
    }
    // Where there is a node, not even what makes a new store does: its tables have to come back.
    node.site.run(&["token", "create", "new", "--config", &config]).mentions(1, none);
    assert_eq!(sql(&desk, "SELECT count(*) FROM pg_namespace WHERE nspname = 'contactd'"), "0");

    desk.import("other", PEOPLE);
    eventually("the lease ends", || !is_ready(&node));
    for _ in 0..8 {
        std::thread::sleep(Duration::from_millis(250));
        assert_eq!(node.look_up(PHONE, &token, ADA).status, 503);
    }
    node.has_logged("this is another database than the one that this node has a copy of");
    let site = node.stop();
    let copy = SqliteStore::open(&site.data()).expect("opens");
    let copied = copy.copy_state().expect("reads").expect("a copy");
    assert!(copied.details.is_some_and(|details| details.number > 0), "its copy is still there");
}

#[test]
fn a_database_into_which_a_store_is_being_moved_is_refused_until_all_of_it_is_there() {
    let site = Site::on(&TestServer::shared().database());
    site.ok(&["token", "create", "crm"]);
    sql(&site, "INSERT INTO facts VALUES ('move', 'abcd 3')");
    for command in [&["stats"][..], &["suppress", ADA]] {
        site.run(command).says(1, "contactd: a store is being moved into this database, and not all of it is there: run `contactd migrate` again, \
                 which goes on where it was\n");
    }
    sql(&site, "UPDATE facts SET value = 'abcd done' WHERE name = 'move'");
    site.ok(&["stats"]);
}

/// A database that can be put back to the state of now.
struct Earlier {
    url: String,
    tables: String,
    opt_outs: String,
    keys: String,
}

impl Earlier {
    fn of(site: &Site) -> Self {
        let url = site.database().expect("a database").to_owned();
        let [tables, opt_outs, keys] = dump(site, &url);
        Self { url, tables, opt_outs, keys }
    }

    fn put_back(&self) {
        let Self { url, tables, opt_outs, keys } = self;
        psql(url, &["-1", "-c", "DROP SCHEMA contactd CASCADE", "-f", tables, "-f", opt_outs, "-f", keys]);
    }
}

/// How much the only node holds that the database has lost.
fn held(site: &Site) -> i64 {
    site.list(&["node", "list"])[0]["held"].as_i64().expect("a number")
}

#[test]
fn opt_outs_and_revocations_that_a_restored_database_has_lost_stay_in_force_on_the_node_and_are_put_back() {
    let (nodes, token) = nodes(&["a"], LEASE);
    let node = &nodes[0];
    let ended = node.site.issue("token", "ended", &["--scope", "phone"]);
    node.site.ok(&["suppress", MIRA]);
    let earlier = Earlier::of(&node.site);
    node.site.ok(&["unsuppress", MIRA]);
    node.site.ok(&["suppress", MIRA, ADA]);
    node.site.ok(&["erase", EVE]);
    node.site.ok(&["token", "revoke", "ended"]);
    earlier.put_back();
    eventually("it says what it holds", || held(&node.site) == 3);
    node.has_logged(
        "the database has lost opt-outs, or revocations or limits of tokens, that this node holds",
    );
    eventually("it serves again", || is_ready(node));
    let is_kept = |node: &Service| {
        [MIRA, ADA, EVE].iter().all(|person| node.look_up(PHONE, &token, person).status == 404)
            && node.look_up(PHONE, &ended, ADA).status == 401
    };
    assert!(is_kept(node));
    let doctor = node.site.run(&["doctor"]);
    assert!(
        doctor.stdout.contains(
            "FAIL  cluster       node a holds 3 opt-outs, or revocations or limits of tokens, that the database has lost"
        ),
        "{doctor:?}"
    );
    // Another change does not make it forget, nor does a restart.
    node.site.ok(&["token", "create", "later"]);
    assert!(is_kept(node));

    let listed = node.site.run(&["node", "reconcile"]);
    assert_eq!(listed.code, 1, "{listed:?}");
    assert!(
        listed.stdout.starts_with(
            "WRONG the database has lost 2 opt-outs and the ends of 1 tokens that this node holds\n"
        ),
        "{listed:?}"
    );
    node.site.run(&["node", "reconcile", "--yes"]).mentions(0, "put back and sealed\n");
    eventually("the database has all of it", || held(&node.site) == 0);
    assert!(is_kept(node));
    let lines = node.site.events(&["--operation", "node reconcile"]);
    assert_eq!(lines[0]["counts"]["optOuts"], 2, "{lines:?}");
    let other =
        machine(node.site.database().expect("a database"), &node.site).serve_with(&[], &named("b", LEASE));
    assert!(is_kept(&other), "a new node has them");
    node.site.ok(&["node", "verify"]);
}

#[test]
fn what_a_database_has_lost_is_given_up_only_by_a_command_that_says_so() {
    let (mut nodes, token) = nodes(&["a"], LEASE);
    let node = nodes.pop().expect("a node");
    let earlier = Earlier::of(&node.site);
    node.site.ok(&["suppress", ADA]);
    // The node is away meanwhile, and the database knows neither the node nor its change.
    let site = node.stop();
    earlier.put_back();
    sql(&site, "DELETE FROM nodes");
    let node = site.serve_with(&[], &named("a", LEASE));
    eventually("it serves", || is_ready(&node));
    assert_eq!(node.look_up(PHONE, &token, ADA).status, 404);
    eventually("it says what it holds", || held(&node.site) == 1);
    node.site
        .run(&["node", "reconcile", "--accept-lost-opt-outs"])
        .mentions(0, "given up: only what the database has is in force here\n");
    eventually("the opt-out is given up", || node.look_up(PHONE, &token, ADA).status == 200);
    eventually("it says so", || held(&node.site) == 0);
    let lines = node.site.events(&["--operation", "node reconcile"]);
    assert_eq!(lines[0]["counts"]["lostOptOuts"], 1, "{lines:?}");
    node.site
        .run(&["node", "reconcile"])
        .mentions(0, "nothing to do: the database holds what contactd stored\n");
}

#[test]
fn a_change_that_the_database_loses_while_a_command_waits_for_a_node_is_not_called_done() {
    let (mut nodes, _) = nodes(&["a", "b"], "lease = \"8s\"\n");
    let earlier = Earlier::of(&nodes[0].site);
    // Its lease goes on.
    nodes.pop().expect("b").kill();
    let a = &nodes[0];
    let suppressed = std::thread::scope(|scope| {
        let suppressing = scope.spawn(|| a.site.run(&["suppress", ADA]));
        eventually("it is committed", || sql(&a.site, "SELECT count(*) FROM suppressions") == "1");
        earlier.put_back();
        suppressing.join().expect("ends")
    });
    suppressed.mentions(1, "contactd: committed, and lost: the database has become an older one since.");
}
