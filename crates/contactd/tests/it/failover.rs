//! A database that is replaced by its standby, seen by a node and by commands.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use contactd_testing::TestServer;

use crate::fixture::{ADA, EVE, MIRA, NOBODY};
use crate::http::Request;
use crate::service::{EMAIL, PHONE, Service, SetAtEnd, Site, eventually};

/// A node on a server with a standby that every commit waits for, and a token.
fn node_with_standby(config: &str) -> (TestServer, TestServer, Service, String) {
    let primary = TestServer::start();
    let url = primary.database();
    let name = url.rsplit('/').next().expect("a name");
    let standby = primary.standby();
    primary.sql("postgres", "ALTER SYSTEM SET synchronous_standby_names TO '*'");
    primary.sql("postgres", "SELECT pg_reload_conf()");
    let site = Site::on(&primary.url_with(&standby, name));
    site.import_people();
    let token = site.token(&[]);
    let node = site.serve_with(&[], config);
    (primary, standby, node, token)
}

#[test]
fn a_failover_that_is_shorter_than_the_lease_is_not_noticed_by_lookups() {
    let (primary, standby, node, token) = node_with_standby("");
    let (node, token, stop) = (&node, &token, &AtomicBool::new(false));
    thread::scope(|scope| {
        for (path, person) in [(PHONE, MIRA), (EMAIL, EVE)] {
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    assert_eq!(node.look_up(path, token, person).status, 200);
                }
            });
        }
        let _stop = SetAtEnd(stop);
        node.site.ok(&["suppress", ADA]);
        primary.stop();
        // This command begins while there is no database.
        let creating = scope.spawn(|| node.site.run(&["token", "create", "later"]));
        standby.promote();
        let created = creating.join().expect("ends");
        assert_eq!(created.code, 0, "{created:?}");
        let later = created.stdout.trim();
        assert_eq!(node.look_up(PHONE, later, ADA).status, 404, "it was opted out before");
        assert_eq!(node.look_up(PHONE, later, MIRA).status, 200);
        node.site.ok(&["unsuppress", ADA]);
        assert_eq!(node.look_up(PHONE, token, ADA).status, 200);
    });
    node.site.ok(&["node", "verify"]);
}

#[test]
fn after_a_failover_that_is_longer_than_the_lease_lookups_are_answered_again_by_themselves() {
    let (primary, standby, node, token) = node_with_standby("[cluster]\nlease = \"2s\"\n");
    node.site.ok(&["suppress", ADA]);
    primary.stop();
    eventually("the lease has ended", || node.look_up(PHONE, &token, MIRA).status == 503);
    for person in [MIRA, ADA, NOBODY] {
        let reply = node.look_up(PHONE, &token, person);
        let shown = (reply.status, reply.header("retry-after").map(str::to_owned), reply.code());
        assert_eq!(shown, (503, Some("1".to_owned()), "service_unavailable".to_owned()));
    }
    let ready = node.send(&Request::get("/readyz"));
    assert_eq!((ready.status, ready.header("retry-after")), (503, Some("1")));
    assert_eq!(node.send(&Request::get("/healthz")).status, 200);
    standby.promote();
    eventually("it answers again", || node.look_up(PHONE, &token, MIRA).status == 200);
    assert_eq!(node.look_up(PHONE, &token, ADA).status, 404);
    assert_eq!(node.send(&Request::get("/readyz")).status, 200);
    node.site.ok(&["unsuppress", ADA]);
    assert_eq!(node.look_up(PHONE, &token, ADA).status, 200);
}

#[test]
fn an_import_under_a_failover_is_there_whole_or_says_that_it_is_not() {
    let (primary, standby, node, token) = node_with_standby("");
    let people: Vec<String> = (0..200).map(|n| format!("https://www.linkedin.com/in/quell-{n}")).collect();
    let rows: String = people.iter().map(|person| format!("{person},+14155550142\n")).collect();
    let rows = format!("profileUrl,phone\n{rows}");
    thread::scope(|scope| {
        let importing = scope.spawn(|| {
            for round in 0.. {
                let source = format!("round-{round}");
                let done = node.site.run_with(&["import", "-", "--source", &source], &rows, &[]);
                if round > 3 || done.code != 0 {
                    return done;
                }
            }
            unreachable!("it has returned")
        });
        primary.stop();
        standby.promote();
        let done = importing.join().expect("ends");
        if done.code != 0 {
            assert_eq!(done.code, 1, "{done:?}");
            assert!(done.stderr.contains("nothing was changed"), "{done:?}");
        }
    });
    node.site.import("last", &rows);
    eventually("all of it is there", || {
        people.iter().all(|person| node.look_up(PHONE, &token, person).status == 200)
    });
    node.site.ok(&["node", "verify"]);
}

#[test]
fn what_a_former_primary_does_not_know_is_asked_again() {
    let (primary, standby, node, _) = node_with_standby("");
    let config = node.site.file("patient.toml", "[cluster]\npatience = \"30s\"\n");
    // Nobody tells the first server, which accepts connections, and commits nothing.
    standby.promote();
    node.site.issue("token", "newer", &[]);
    node.site.import("newer", "profileUrl,phone\nhttps://www.linkedin.com/in/nia-quorin,+14155550190\n");
    let nia = "https://www.linkedin.com/in/nia-quorin";
    for command in [&["token", "revoke", "newer"][..], &["suppress", "--must-exist", nia]] {
        standby.freeze();
        let done = thread::scope(|scope| {
            let running = scope.spawn(|| node.site.run(&[command, &["--config", &config]].concat()));
            // Meanwhile the command reads from the only server that answers.
            thread::sleep(std::time::Duration::from_secs(6));
            standby.thaw();
            running.join().expect("ends")
        });
        assert_eq!(done.code, 0, "{done:?}");
    }
    assert_eq!(primary.sql("postgres", "SELECT pg_is_in_recovery()"), "f");
}
