//! The journals of all nodes in the database: each line once, verified with public keys alone.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use contactd_testing::TestServer;

use crate::audit::segments;
use crate::cluster::{id_of, machine, nodes};
use crate::fixture::{ADA, EVE, MIRA, many};
use crate::http::{Request, profile_body};
use crate::service::{EMAIL, PHONE, Service, SetAtEnd, Site, copy_directory, eventually};

/// Small segments and short epochs, so that there are many of both.
const BUSY: &str = "[cluster]\nname = \"a\"\n[audit]\nsegment_bytes = 50000\nepoch = \"1s\"\n";

/// Runs SQL in the database of a site.
pub(crate) fn sql(site: &Site, sql: &str) -> String {
    let url = site.database().expect("a database");
    let name = url.rsplit('/').next().expect("a name");
    TestServer::shared().sql(name, &format!("SET search_path TO contactd; {sql}"))
}

/// The lines in the files of a journal, by number.
fn in_files(data: &Path) -> BTreeMap<u64, String> {
    let mut lines = BTreeMap::new();
    for entry in std::fs::read_dir(data.join("audit")).expect("reads") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let mut text = String::new();
        let file = std::fs::File::open(&path).expect("opens");
        match name.as_str() {
            "seals.jsonl" => continue,
            name if name.ends_with(".jsonl.zst") => {
                zstd::Decoder::new(file).expect("opens").read_to_string(&mut text).expect("reads");
            }
            name if name.ends_with(".jsonl") => {
                let mut file = file;
                file.read_to_string(&mut text).expect("reads");
            }
            _ => continue,
        }
        for line in text.lines() {
            let read: serde_json::Value = serde_json::from_str(line).expect("JSON");
            assert!(lines.insert(read["seq"].as_u64().expect("a number"), line.to_owned()).is_none());
        }
    }
    lines
}

/// The lines of a node in the database, by number.
fn shipped(site: &Site, node: &str) -> BTreeMap<u64, String> {
    let rows = sql(
        site,
        &format!(
            "SELECT journal_lines.seq || ' ' || line FROM journal_lines JOIN journal_copies ON copy = id WHERE node = '{node}' ORDER BY id"
        ),
    );
    let mut lines = BTreeMap::new();
    for row in rows.lines() {
        let (seq, line) = row.split_once(' ').expect("a number and a line");
        assert!(
            lines.insert(seq.parse().expect("a number"), line.to_owned()).is_none(),
            "{seq} is there twice"
        );
    }
    lines
}

/// A node that is stopped, so that all of its journal is shipped, and a machine without a node on the same database.
fn shipped_journal(config: &str) -> (Site, Site, String) {
    let (mut nodes, token) = nodes(&["a"], config);
    let node = nodes.pop().expect("a node");
    for _ in 0..20 {
        assert_eq!(node.look_up(PHONE, &token, ADA).status, 200);
    }
    let id = id_of(&node.site, "a");
    let desk = machine(node.site.database().expect("a database"), &node.site);
    (node.stop(), desk, id)
}

#[test]
fn a_node_that_is_killed_while_it_ships_has_every_line_in_the_database_once() {
    let (mut nodes, token) = nodes(&["a"], "");
    let mut node = nodes.pop().expect("a node");
    let id = id_of(&node.site, "a");
    let request = Request::lookup(EMAIL, profile_body(EVE)).token(&token).bytes();
    for kill in 0..3_u64 {
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let _end = SetAtEnd(&is_over);
            let (node, is_over, request) = (&node, &is_over, &request);
            scope.spawn(move || {
                let mut connection = node.connect();
                while !is_over.load(Ordering::Relaxed)
                    && connection.try_send(request)
                    && connection.try_reply().is_some()
                {}
            });
            let last = || sql(&node.site, "SELECT max(seq) FROM journal_copies");
            let before = last();
            // At another moment each time: as soon as something was shipped, or a little later.
            eventually("something is shipped", || last() != before);
            std::thread::sleep(Duration::from_millis(kill * 37));
            node.signal(rustix::process::Signal::KILL);
        });
        node = node.kill().serve_with(&[], BUSY);
    }
    let site = node.stop();
    let (files, copy) = (in_files(&site.data()), shipped(&site, &id));
    assert!(files.len() > 100, "{} lines", files.len());
    assert!(files == copy, "{} lines in the files, {} in the database", files.len(), copy.len());
    assert_eq!(sql(&site, "SELECT count(*) FROM journal_copies"), "1");
    let indexed = sql(&site, "SELECT count(*) FROM events");
    let requests = files.values().filter(|line| line.contains("\"requestId\"")).count();
    assert_eq!(indexed, requests.to_string());
    site.ok(&["audit", "verify"]);
}

#[test]
fn the_journal_of_a_node_that_is_gone_is_verified_shown_and_proven_from_the_database() {
    let (mut nodes, token) = nodes(&["a", "b"], "");
    assert_eq!(nodes[0].look_up(PHONE, &token, ADA).status, 200);
    assert_eq!(nodes[1].look_up(EMAIL, &token, EVE).status, 200);
    let (b, a) = (nodes.pop().expect("a node"), nodes.pop().expect("a node"));
    let (id, other) = (id_of(&a.site, "b"), id_of(&a.site, "a"));
    let own_root = |site: &Site| site.ok(&["audit", "root"]).lines().next().expect("a root").to_owned();
    let (root_of_a, root_of_b) = (own_root(&a.site), own_root(&b.site));
    let site = b.stop();
    std::fs::remove_dir_all(site.data()).expect("removes");
    a.site.ok(&["node", "forget", &id]);

    let shown = a.site.json(&["audit", "show", "--operation", "email"]);
    assert_eq!((shown.as_array().map(Vec::len), &shown[0]["outcome"]), (Some(1), &"hit".into()), "{shown}");
    for from in [&["subject", EVE, "--json"][..], &["subject", EVE, "--json", "--from-journal"]] {
        let report = a.site.run(from).json();
        let to: Vec<_> =
            report["disclosures"].as_array().into_iter().flatten().map(|to| &to["operation"]).collect();
        assert_eq!(to, ["email"], "{report}");
    }
    let usage = a.site.json(&["usage"]);
    assert_eq!(usage[0]["hits"], 2, "{usage}");

    let desk = machine(a.site.database().expect("a database"), &a.site);
    let begins = |site: &Site| {
        let report = site.json(&["subject", "https://www.linkedin.com/in/never-asked-for"]);
        assert!(report["disclosures"].as_array().is_some_and(Vec::is_empty), "{report}");
        report["disclosuresKnownSince"].as_str().map(str::to_owned)
    };
    let since = begins(&a.site);
    assert!(since.is_some());
    assert_eq!(begins(&desk), since, "also where there is no journal");
    a.stop();
    let verified = desk.run(&["audit", "verify"]);
    verified
        .mentions(0, format!("node {id} (b), as shipped to the database:\n"))
        .mentions(0, format!("node {other} (a), as shipped to the database:\n"));
    assert_eq!(verified.stdout.matches("whole: ").count(), 2, "{verified:?}");

    // With all roots, everything is verified; with one of them, the rest is not.
    let mut named = desk.ok(&["audit", "root"]).lines().map(str::to_owned).collect::<Vec<_>>();
    let mut known = vec![root_of_a.clone(), root_of_b.clone()];
    named.sort();
    known.sort();
    assert_eq!(named, known);
    let verified = desk.run(&["audit", "verify", "--root", &root_of_a, "--root", &root_of_b]);
    assert_eq!(
        (verified.code, verified.stdout.matches("(given with --root)").count()),
        (0, 2),
        "{verified:?}"
    );
    let verified = desk.run(&["audit", "verify", "--root", &root_of_a]);
    assert_eq!(verified.code, 1, "{verified:?}");
    let lines = verified.stdout.lines().filter(|line| line.starts_with("UNVERIFIED ")).collect::<Vec<_>>();
    let last = sql(&desk, &format!("SELECT seq FROM journal_copies WHERE node = '{id}'"));
    assert_eq!(
        lines,
        [format!(
            "UNVERIFIED node {id} (b), {last} lines: its root was not given with --root; `contactd audit root` lists the roots of \
             all nodes"
        )]
    );
    desk.ok(&["audit", "verify", "--root", &root_of_a, "--node", "a"]);
    let nobody = "0".repeat(64);
    desk.run(&["audit", "verify", "--root", &root_of_a, "--root", &root_of_b, "--root", &nobody])
        .mentions(1, format!("WRONG no journal has the root {nobody}, which was given\n"));

    // A proof from the database is a proof like any other.
    let period = ["--since", "2020-01-01", "--until", "2100-01-01"];
    let refused = desk.run(&[&["audit", "proof"], &period[..]].concat());
    let mut both = [format!("{id} (b)"), format!("{other} (a)")];
    both.sort();
    assert_eq!(
        (refused.code, refused.stdout.as_str(), refused.stderr),
        (
            1,
            "",
            format!(
                "contactd: this is about the journal of one node: say which with --node; there are {}\n",
                both.join(", ")
            )
        )
    );
    let proof = desk.ok(&[&["audit", "proof", "--node", "b"], &period[..]].concat());
    let file = desk.file("b.proof", format!("{proof}\n"));
    let elsewhere = Site::embedded();
    elsewhere.ok(&["audit", "verify", "--proof", &file, "--root", &root_of_b]);

    // A head that was noted down is looked for in the journal of its node.
    let heads = desk.ok(&["audit", "head"]);
    assert_eq!(heads.lines().count(), 2, "{heads}");
    for head in heads.lines() {
        desk.ok(&["audit", "verify", "--head", head]);
        let node = if head.ends_with(&id) { "a" } else { "b" };
        desk.run(&["audit", "verify", "--node", node, "--head", head]).mentions(
            1,
            "WRONG the copy: the line that was noted down is of another node, and was not looked for\n",
        );
    }
    desk.run(&["audit", "verify", "--head", &heads]).mentions(2, "these are several heads");
    let roots = desk.ok(&["audit", "root"]);
    let verified = desk.run(&["audit", "verify", "--root", &roots]);
    assert_eq!(
        (verified.code, verified.stdout.matches("(given with --root)").count()),
        (0, 2),
        "{verified:?}"
    );
}

#[test]
fn the_head_of_a_node_can_be_checked_on_every_machine() {
    let (nodes, token) = nodes(&["a", "b"], "");
    let [a, b] = &nodes[..] else { panic!("there are two") };
    assert_eq!(a.look_up(PHONE, &token, ADA).status, 200);
    let id = id_of(&a.site, "a");
    let heads = a.site.ok(&["audit", "head"]);
    let head = heads.lines().next().expect("a head");
    assert!(head.ends_with(&format!(":{id}")), "{heads}");
    // Also before it is shipped.
    a.site.ok(&["audit", "verify", "--head", head]);
    eventually("the line is shipped", || b.site.run(&["audit", "verify", "--head", head]).code == 0);
    let (seq, _) = head.split_once(':').expect("a number");
    let forged = format!("{seq}:{}:{id}", "0".repeat(32));
    for site in [&a.site, &b.site] {
        site.run(&["audit", "verify", "--head", &forged]).mentions(1, "WRONG ");
    }
}

#[test]
fn what_is_changed_removed_added_or_moved_in_the_database_is_found() {
    let (_node, desk, _) = shipped_journal("[audit]\nsegment_bytes = 4096\n");
    desk.ok(&["audit", "verify"]);
    let last: u64 = sql(&desk, "SELECT max(seq) FROM journal_lines").parse().expect("a number");
    sql(&desk, "CREATE TABLE kept AS SELECT * FROM journal_lines");
    sql(&desk, "CREATE TABLE kept_seals AS SELECT * FROM journal_seals");
    let middle = last / 2;
    let tampering = [
        "UPDATE journal_lines SET line = replace(line, '\"hit\"', '\"miss\"') WHERE seq = (SELECT min(seq) FROM journal_lines WHERE line LIKE '%\"hit\"%')".to_owned(),
        format!("UPDATE journal_lines SET line = line || ' ' WHERE seq = {middle}"),
        format!("UPDATE journal_lines SET begins_segment = TRUE WHERE seq = {middle}"),
        "UPDATE journal_lines SET begins_segment = FALSE".to_owned(),
        format!("DELETE FROM journal_lines WHERE seq = {middle}"),
        "DELETE FROM journal_lines WHERE seq = 1".to_owned(),
        format!("DELETE FROM journal_lines WHERE seq = {last}"),
        format!("DELETE FROM journal_lines WHERE seq > {middle}"),
        "DELETE FROM journal_lines".to_owned(),
        format!("INSERT INTO journal_lines SELECT copy, {last} + 1, FALSE, replace(line, '\"seq\":{last}', '\"seq\":{}') FROM journal_lines WHERE seq = {last}", last + 1),
        format!("INSERT INTO journal_lines SELECT copy, {last} + 1, FALSE, line FROM journal_lines WHERE seq = {middle}"),
        format!("INSERT INTO journal_lines SELECT copy, {last} + 1, TRUE, line FROM journal_lines WHERE seq = 1"),
        format!(
            "UPDATE journal_lines SET line = (SELECT line FROM kept WHERE kept.seq = CASE journal_lines.seq WHEN {middle} THEN {middle} + 1 ELSE {middle} END)
             WHERE seq IN ({middle}, {middle} + 1)"
        ),
        "UPDATE journal_copies SET removed_through = 5".to_owned(),
        "UPDATE journal_seals SET line = replace(line, '\"time\":\"20', '\"time\":\"19')".to_owned(),
    ];
    for change in tampering {
        sql(&desk, &change);
        desk.run(&["audit", "verify"]).mentions(1, "WRONG ");
        sql(
            &desk,
            "TRUNCATE journal_lines, journal_seals; INSERT INTO journal_lines SELECT * FROM kept; \
             INSERT INTO journal_seals SELECT * FROM kept_seals; UPDATE journal_copies SET removed_through = 0",
        );
    }
    desk.ok(&["audit", "verify"]);
}

/// Waits until a node has begun another copy of its journal.
fn another_copy(node: &Service, first: usize) {
    eventually("another copy has begun", || {
        sql(&node.site, "SELECT count(*) FROM journal_copies WHERE seq > 0") == "2"
    });
    let kept = "SELECT count(*) FROM journal_lines WHERE copy = (SELECT min(id) FROM journal_copies)";
    assert_eq!(sql(&node.site, kept), first.to_string());
}

#[test]
fn a_journal_that_was_cut_leaves_what_was_shipped_and_the_difference_is_found() {
    let (site, desk, id) = shipped_journal("");
    let before = shipped(&desk, &id);
    let last = segments(&site.data()).pop().expect("a segment");
    let text = std::fs::read_to_string(&last).expect("reads");
    let kept: Vec<&str> = text.lines().collect();
    std::fs::write(&last, kept[..kept.len() - 6].join("\n") + "\n").expect("writes");
    let node = site.serve_with(&[], "[cluster]\nname = \"a\"\n");
    another_copy(&node, before.len());
    desk.run(&["audit", "verify"])
        .mentions(1, "WRONG the copy: the node's journal is not the one that was shipped until ");
    let warned =
        format!("contactd: the journal of node {id} (a) does not continue what it had shipped before, ");
    for args in [&["audit", "show"][..], &["usage"], &["subject", ADA]] {
        desk.run_recorded(args).mentions(0, &warned);
    }
    let site = node.stop();
    site.run(&["audit", "verify", "--accept-loss"]);
    assert_eq!(sql(&desk, "SELECT count(*) FROM journal_copies"), "1");
    let shown = site.run(&["audit", "show", "--operation", "audit accept-loss", "--json"]);
    assert_eq!(shown.json().as_array().map(Vec::len), Some(1), "{shown:?}");
    assert!(!shown.stderr.contains(&warned), "{shown:?}");
}

#[test]
fn a_journal_that_begins_anew_leaves_what_was_shipped() {
    let (site, desk, id) = shipped_journal("");
    let before = shipped(&desk, &id);
    std::fs::remove_dir_all(site.data().join("audit")).expect("removes");
    for key in std::fs::read_dir(site.data().join("keys")).expect("reads") {
        let key = key.expect("an entry").path();
        if key.file_name().is_some_and(|name| name.to_string_lossy().starts_with("journal")) {
            std::fs::remove_file(key).expect("removes");
        }
    }
    let node = site.serve_with(&[], "[cluster]\nname = \"a\"\n");
    another_copy(&node, before.len());
    let note = "; then the node's journal began anew, with a root of its own: after a restore, or because the keys were gone. \
                Another copy follows\n";
    desk.run(&["audit", "verify"]).mentions(0, note);
}

#[test]
fn what_a_node_removes_after_its_retention_period_is_removed_from_the_database() {
    let (mut nodes, token) = nodes(&["a"], "");
    let site = nodes.pop().expect("a node").stop();
    let config = "[cluster]\nname = \"a\"\n[audit]\nsegment_bytes = 4096\n";
    let node = site.serve_with(&[], config);
    let file = node.site.file("many.csv", many("list-quell", 60));
    node.site.ok(&["import", &file, "--source", "crm", "--dry-run"]);
    let lists = |site: &Site| sql(site, "SELECT count(*) FROM journal_lists");
    assert_eq!(lists(&node.site), "1");
    for _ in 0..60 {
        assert_eq!(node.look_up(PHONE, &token, MIRA).status, 200);
    }
    let site = node.stop();
    let before: u64 = sql(&site, "SELECT count(*) FROM journal_lines").parse().expect("a number");
    // Lines are removed at the start, and once a minute: at the start, the first ones are old enough.
    std::thread::sleep(Duration::from_millis(1_100));
    let node = site.serve_with(&[], &format!("{config}keep = \"1s\"\n"));
    eventually("lines are removed", || {
        let now: u64 = sql(&node.site, "SELECT min(seq) FROM journal_lines").parse().expect("a number");
        now > 10
    });
    eventually("and the list that only they name", || lists(&node.site) == "0");
    let site = node.stop();
    assert_eq!(shipped(&site, &id_of(&site, "a")), in_files(&site.data()), "{before} lines before");
    let desk = machine(site.database().expect("a database"), &site);
    desk.run(&["audit", "verify"]).mentions(0, "were removed after their retention period");
}

#[test]
fn a_metric_says_how_many_lines_wait_to_be_shipped() {
    let (nodes, token) = nodes(&["a"], "");
    assert_eq!(nodes[0].look_up(PHONE, &token, ADA).status, 200);
    let waiting = || nodes[0].metric("contactd_journal_unshipped_lines").expect("a number");
    eventually("everything is shipped", || waiting() == 0);
}

#[test]
fn a_copied_data_directory_disturbs_nothing_that_its_node_has_shipped() {
    let (mut nodes, token) = nodes(&["a"], "lease = \"2s\"\n");
    let node = nodes.pop().expect("a node");
    assert_eq!(node.look_up(PHONE, &token, ADA).status, 200);
    let (id, site) = (id_of(&node.site, "a"), node.kill());
    let clone = Site::on(site.database().expect("a database"));
    copy_directory(&site.data(), &clone.data());
    let config = "[cluster]\nname = \"a\"\nlease = \"2s\"\n";
    let node = site.serve_with(&[], config);
    let clone = clone.serve_unready(config);
    let in_the_log = |what: &str| clone.log.text().lines().filter(|line| line.contains(what)).count();
    let other = "another process runs as this node: the data directory was copied";
    eventually("the clone says what it is", || in_the_log(other) > 0);
    let until = std::time::Instant::now() + Duration::from_secs(4);
    while std::time::Instant::now() < until {
        assert_eq!(node.look_up(PHONE, &token, MIRA).status, 200);
        node.site.ok(&["suppress", EVE]);
        node.site.ok(&["unsuppress", EVE]);
        std::thread::sleep(Duration::from_millis(200));
    }
    assert_eq!(clone.look_up(PHONE, &token, MIRA).status, 503);
    assert_eq!(
        (
            in_the_log(other),
            in_the_log("another copy begins"),
            in_the_log("is not as it was when it was indexed")
        ),
        (1, 0, 0)
    );
    assert!(clone.log.text().lines().any(|line| line.contains(other) && line.contains("ERROR")));
    // Nothing is read that would be on record nowhere but in this directory.
    let is_refused = |site: &Site| {
        let backup = site.place("copied.backup");
        for args in [&["subject", MIRA][..], &["export"], &["backup", &backup]] {
            let refused = site.run(args);
            refused.mentions(1, "another process runs as this node, in another data directory");
            assert_eq!(refused.stdout, "", "{args:?}");
        }
        let examined = site.run(&["doctor"]).stdout;
        assert!(
            examined.contains("-> stop one of the two. ") && !examined.contains("permissions of audit/"),
            "{examined}"
        );
    };
    is_refused(&clone.site);
    is_refused(&clone.stop());
    node.site.ok(&["export"]);
    let site = node.stop();
    assert_eq!(sql(&site, "SELECT count(*) FROM journal_copies"), "1");
    assert_eq!(shipped(&site, &id), in_files(&site.data()));
    site.ok(&["audit", "verify"]);
    machine(site.database().expect("a database"), &site).ok(&["audit", "verify"]);
}
