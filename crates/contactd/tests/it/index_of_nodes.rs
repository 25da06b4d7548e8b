//! The index of every journal in the database: compared with what is signed, and rebuilt from it, on any machine.

use serde_json::Value;

use crate::audit::segments;
use crate::cluster::{id_of, machine, nodes};
use crate::fixture::{ADA, EVE};
use crate::service::{EMAIL, PHONE, Site, eventually};
use crate::shipping::sql;

/// What is said about who received what about two people, and which actions are on record.
fn said(site: &Site) -> (Vec<Value>, Vec<Value>) {
    let report = |person| site.run_recorded(&["subject", person, "--json"]).json();
    let disclosures = [ADA, EVE].map(|person| report(person)["disclosures"].clone());
    let mut actions = site.events(&[]);
    actions.retain(|event| event["operation"] != "subject");
    (disclosures.into(), actions)
}

#[test]
fn what_is_changed_in_the_index_of_any_node_is_found_named_and_mended_on_another_machine() {
    let (mut nodes, token) = nodes(&["a", "b", "c"], "lease = \"2s\"\n");
    let (c, b) = (nodes.pop().expect("a node"), nodes.pop().expect("a node"));
    let a = &nodes[0];
    let indexed_of = |id: &str| format!("node = (SELECT id FROM names WHERE name = '{id}')");
    for (node, name) in [(a, "a"), (&b, "b"), (&c, "c")] {
        assert_eq!(node.look_up(PHONE, &token, ADA).status, 200);
        assert_eq!(node.look_up(EMAIL, &token, EVE).status, 200);
        let recorded = indexed_of(&id_of(&a.site, name));
        // Another node may be faster to take an entry.
        eventually("it has recorded one itself", || {
            node.site.ok(&["unsuppress", EVE]);
            sql(&a.site, &format!("SELECT count(*) FROM admin_events WHERE {recorded}")) != "0"
        });
    }
    let ids = [id_of(&a.site, "b"), id_of(&a.site, "c")];
    // One that runs on, and one that is gone for good.
    drop(c.stop());
    a.site.ok(&["node", "forget", &ids[1]]);
    let desk = machine(a.site.database().expect("a database"), &a.site);
    eventually("everything is shipped", || desk.run(&["audit", "verify"]).code == 0);
    let compared = a.site.run(&["subject", ADA]);
    assert!(compared.stderr.contains("has not been compared"), "not on this machine: {compared:?}");
    a.site.ok(&["audit", "verify"]);
    let before = said(&a.site);
    let (of_two, two) = ([&a.site, &desk], [("b", &ids[0]), ("c", &ids[1])]);
    for (turn, change) in [
        "DELETE FROM events WHERE outcome = 0 AND OF_NODE",
        "UPDATE events SET value = NULL WHERE OF_NODE",
        "INSERT INTO events SELECT node, seq + 1000, at, token, reason, digest_key, operation, outcome, count, request_id, given_id, profile, value FROM events WHERE OF_NODE",
        "DELETE FROM admin_events WHERE OF_NODE",
        "UPDATE admin_events SET record = replace(record, 'unsuppress', 'suppress') WHERE OF_NODE",
        "UPDATE audit_usage SET hits = hits + 3 WHERE OF_NODE",
    ]
    .into_iter()
    .enumerate()
    {
        // Each is tried on one of the two nodes, and found on one of two machines.
        let ((name, id), site) = (two[turn % 2], of_two[turn / 2 % 2]);
        sql(site, &change.replace("OF_NODE", &indexed_of(id)));
        let found = site.run(&["audit", "verify"]);
        let (_, of_node) = found.stdout.split_once(&format!("node {id} ({name})")).expect("the node");
        let of_node = of_node.split("\nnode ").next().unwrap_or_default();
        assert!(found.code == 1 && of_node.contains("WRONG the index in the database: "), "{change}: {found:?}");
        assert_eq!(found.stdout.matches("WRONG ").count(), 1, "{change}: {found:?}");
        assert_eq!(said(site), before, "{change}");
        site.ok(&["audit", "verify"]);
    }
    let compared = a.site.run(&["subject", ADA]);
    assert!(compared.stderr.contains("last compared with the journal at"), "{compared:?}");

    // Lines of a node that has no journal, and lines after what a node that is gone has shipped.
    let of_nobody = "INSERT INTO names (name) VALUES ('0badcafe');
        INSERT INTO events SELECT (SELECT id FROM names WHERE name = '0badcafe'), seq, at, token, reason, digest_key, operation, outcome, count, request_id, given_id, profile, value FROM events ON CONFLICT DO NOTHING";
    sql(&desk, of_nobody);
    desk.run(&["audit", "verify"]).mentions(1, "WRONG the index had lines of node 0badcafe");
    assert_eq!(said(&desk), before);
    let further = format!(
        "UPDATE positions SET seq = seq + 1 WHERE node = (SELECT id FROM names WHERE name = '{0}');
         INSERT INTO events SELECT node, (SELECT seq FROM positions WHERE node = events.node), at, token, reason, digest_key, operation, outcome, count, request_id, given_id, profile, value
         FROM events WHERE node = (SELECT id FROM names WHERE name = '{0}') LIMIT 1",
        ids[1]
    );
    sql(&desk, &further);
    desk.run(&["audit", "verify"]).mentions(1, "the node has shipped its lines up to");
    assert_eq!(said(&desk), before);
    desk.ok(&["audit", "verify"]);

    // The journal of a node under another name: the node ships it again, and its lines would count twice.
    sql(&desk, &format!("UPDATE journal_copies SET node = '0badcafe' WHERE node = '{}'", ids[0]));
    let doubled = "WRONG the copy: it is the journal of node 0badcafe as well, and a journal is of one node";
    eventually("it is shipped again", || desk.run(&["audit", "verify"]).stdout.contains(doubled));
}

#[test]
fn the_index_is_not_made_from_a_journal_that_is_not_whole() {
    let (mut nodes, token) = nodes(&["a", "b"], "");
    let (b, a) = (nodes.pop().expect("a node"), nodes.pop().expect("a node"));
    assert_eq!(b.look_up(PHONE, &token, ADA).status, 200);
    assert_eq!(a.look_up(EMAIL, &token, EVE).status, 200);
    b.stop();
    let desk = machine(a.site.database().expect("a database"), &a.site);
    let site = a.stop();
    for verifier in [&site, &desk] {
        verifier.ok(&["audit", "verify"]);
    }
    // In the database, and in the files of the own node.
    let before = said_from_index(&desk);
    let hits = "line LIKE '%\"hit\"%'";
    sql(&desk, &format!("CREATE TABLE kept AS SELECT * FROM journal_lines WHERE {hits}"));
    sql(&desk, &format!("UPDATE journal_lines SET line = replace(line, '\"hit\"', '\"miss\"') WHERE {hits}"));
    let segment = segments(&site.data()).remove(0);
    let good = std::fs::read_to_string(&segment).expect("reads");
    std::fs::write(&segment, good.replace("\"hit\"", "\"miss\"")).expect("writes");
    for verifier in [&site, &desk] {
        let found = verifier.run(&["audit", "verify"]);
        found.mentions(1, "note: its index was not compared");
        assert!(!found.stdout.contains("rebuilt"), "{found:?}");
    }
    std::fs::write(&segment, good).expect("writes");
    sql(
        &desk,
        "UPDATE journal_lines SET line = kept.line FROM kept WHERE kept.copy = journal_lines.copy AND kept.seq = journal_lines.seq",
    );
    assert_eq!(said_from_index(&desk), before, "it is right before anything is verified again");
    for verifier in [&site, &desk] {
        verifier.ok(&["audit", "verify"]);
    }
}

/// The rows of the index.
fn said_from_index(site: &Site) -> String {
    sql(site, "SELECT node, seq, outcome, value FROM events ORDER BY node, seq")
}
