//! Proof: what was done is on record, and nobody can change the record unnoticed.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::audit::{load, recorded_hits};
use crate::fixture::{ADA, EVE, MIRA, NOBODY, assert_nothing_personal};
use crate::http::{Request, profile_body};
use crate::service::{EMAIL, PHONE, Service, Site, assert_has, copy_directory, eventually, sqlite};
use crate::transcript::check;

/// Short segments and epochs, so that every part of the journal is in use.
const BUSY: &str = "[audit]\nsegment_bytes = 6000\nepoch = \"1s\"\n";

/// The actions in the journal, oldest first.
fn actions(site: &Site) -> Vec<Value> {
    site.events(&[]).into_iter().rev().filter(|event| event["actor"].is_string()).collect()
}

fn whole(site: &Site, flags: &[&str]) -> bool {
    let verified = site.run(&[&["audit", "verify"], flags].concat());
    assert!(verified.code == 0 || verified.code == 1, "{verified:?}");
    verified.code == 0
}

#[test]
fn every_administrative_action_is_on_record_with_its_actor_also_without_a_server() {
    let check_all = |site: &Site| {
        check(site, "every_action");
        for file in fs::read_dir(site.data().join("audit")).expect("lists") {
            assert_nothing_personal(&fs::read_to_string(file.expect("an entry").path()).expect("reads"));
        }
    };
    check_all(&Site::with_people());
    // It does not sweep meanwhile.
    check_all(&Site::with_people().serve_with(&[], "[retention]\nsweep_every = \"1h\"\n").site);
}

#[test]
fn a_restore_is_on_record_and_the_new_journal_names_the_old_one() {
    let (service, token) = Service::with_people();
    service.look_up(PHONE, &token, ADA);
    service.site.ok(&["backup", "a.backup"]);
    let root = service.site.ok(&["audit", "root"]);
    let backup = service.site.place("a.backup");
    let listing = Command::new("tar").args(["--zstd", "-tf", &backup]).output().expect("lists");
    let names = String::from_utf8_lossy(&listing.stdout).into_owned();
    assert!(!names.contains("journal-epoch") && !names.contains("journal-signed"), "{names}");
    let other = Site::empty();
    other.ok(&["restore", &backup, "--accept-lost-opt-outs"]);
    assert_eq!(actions(&other).last().map(|event| event["operation"].clone()), Some("restore".into()));
    let new_root = other.ok(&["audit", "root"]);
    assert_ne!(root, new_root);
    assert!(whole(&other, &[]) && whole(&other, &["--root", &root, "--root", &new_root]));
    assert!(!whole(&other, &["--root", &root]));
}

#[test]
fn what_cannot_be_recorded_is_not_read_and_an_opt_out_is_never_refused() {
    let site = Site::with_people();
    let audit = site.data().join("audit");
    // Another process has the journal, and does not answer.
    let lock = fs::File::open(&audit).expect("a journal");
    lock.lock().expect("locks");
    let export = site.run(&["export"]);
    export.mentions(1, "cannot be recorded in the audit journal now");
    assert_eq!(export.stdout, "");
    site.run(&["suppress", ADA]).mentions(0, "done, but not yet on record");
    site.ok(&["audit", "show", "--json"]);
    drop(lock);
    let events = actions(&site);
    assert!(events.iter().any(|event| event["operation"] == "suppress"), "it comes later: {events:?}");
    assert_eq!(events.iter().filter(|event| event["operation"] == "suppress").count(), 1);
}

#[test]
fn a_changed_index_is_found_and_rebuilt() {
    let (service, token) = Service::with_people();
    for url in [ADA, EVE, NOBODY, ADA] {
        service.look_up(EMAIL, &token, url);
    }
    service.site.ok(&["export"]);
    let site = service.stop();
    assert!(whole(&site, &[]));
    // Without the lines about what is done here.
    let shown = || {
        let mut shown = site.events(&[]);
        shown.retain(|event| event["operation"] != "audit accept-loss");
        shown
    };
    let before = shown();
    for change in [
        "DELETE FROM events WHERE outcome = 0",
        "UPDATE events SET outcome = 1",
        "UPDATE events SET at = at + 1 WHERE outcome = 0",
        "UPDATE events SET value = NULL",
        "UPDATE names SET name = 'tok_other' WHERE name LIKE 'tok_%'",
        "INSERT INTO events SELECT node, seq + 1000, at, request_id, token, operation, outcome, reason, digest_key, profile, given_id, value, count, place, via FROM events",
        "INSERT INTO names (id, name) VALUES (99, 'n9'); INSERT INTO events SELECT 99, seq, at, request_id, token, operation, outcome, reason, digest_key, profile, given_id, value, count, place, via FROM events",
        "UPDATE events SET via = 'sandbox'",
        "UPDATE usage SET hits = 7",
        "DELETE FROM admin_events",
        "UPDATE admin_events SET record = replace(record, 'export', 'stats')",
        "UPDATE positions SET seq = seq + 9",
        "INSERT INTO names (id, name) VALUES (98, 'n8'); INSERT INTO positions SELECT 98, segment, offset, seq, chain FROM positions; INSERT INTO usage SELECT 98, token, day, 5, 5, 5 FROM usage",
        "CREATE TRIGGER hide AFTER INSERT ON events BEGIN DELETE FROM events WHERE outcome = 0; END",
        "DROP INDEX events_by_profile; CREATE INDEX events_by_profile ON events (profile) WHERE profile IS NOT NULL AND outcome <> 0; PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = 'CREATE INDEX events_by_profile ON events (profile) WHERE profile IS NOT NULL' WHERE name = 'events_by_profile'",
    ] {
        sqlite(&site.data().join("audit-index.db"), change);
        let found = site.run(&["audit", "verify"]);
        assert_eq!(found.code, 1, "{change}: {found:?}");
        // What the index had known of a line that never was is reported until it is explained.
        site.run(&["audit", "verify", "--accept-loss"]);
        site.ok(&["audit", "verify"]);
        assert_eq!(shown(), before, "{change}");
    }
    fs::remove_file(site.data().join("audit-index.db")).expect("removes");
    assert!(whole(&site, &[]), "a missing one is made anew");
    site.run(&["subject", ADA]).mentions(0, "last compared with the journal at");
    let subject = site.json(&["subject", ADA, "--from-journal"]);
    assert_eq!(subject["disclosures"].as_array().map(Vec::len), Some(2));
    assert_eq!(subject["isFromJournal"], true);
}

#[test]
fn a_copy_and_a_proof_are_verified_elsewhere_with_the_root_alone() {
    let (service, token) = Service::with(&[], BUSY);
    for _ in 0..40 {
        service.look_up(PHONE, &token, ADA);
    }
    std::thread::sleep(Duration::from_millis(1_200));
    let root = service.site.ok(&["audit", "root"]);
    assert_eq!(root.len(), 64);
    let site = service.stop();
    let head = site.ok(&["audit", "head"]);
    let copy = Site::empty();
    let to = copy.path("copy");
    copy_directory(&site.data().join("audit"), &to);
    let dir = to.to_str().expect("UTF-8");
    copy.run(&["audit", "verify", "--dir", dir, "--root", &root, "--head", &head])
        .mentions(0, "given with --root");
    assert!(!copy.data().exists(), "no data directory is made for it");
    copy.run(&["audit", "verify", "--dir", dir]).mentions(0, "taken from the journal itself");
    assert_eq!(copy.run(&["audit", "verify", "--dir", dir, "--root", &"ab".repeat(32)]).code, 1);
    copy.run(&["audit", "verify", "--dir", dir, "--root", "short"]).mentions(2, "64 hex digits");

    let proof = site.ok(&["audit", "proof", "--since", "2026-01-01", "--until", "2099-01-01"]);
    let file = copy.file("a.proof", format!("{proof}\n"));
    copy.ok(&["audit", "verify", "--proof", &file, "--root", &root]);
    assert_eq!(copy.run(&["audit", "verify", "--proof", &file]).code, 2, "a proof needs a root");
    let forged = copy.file("b.proof", format!("{}\n", proof.replacen("\"hit\"", "\"miss\"", 1)));
    copy.run(&["audit", "verify", "--proof", &forged, "--root", &root]).mentions(1, "was changed");
    for name in fs::read_dir(site.data().join("keys")).expect("lists") {
        let mode = name.expect("an entry").metadata().expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

#[test]
fn the_forged_segment_that_hid_disclosures_is_set_aside() {
    let (service, token) = Service::with_people();
    service.look_up(PHONE, &token, ADA);
    let root = service.site.ok(&["audit", "root"]);
    let site = service.stop();
    let head = site.ok(&["audit", "head"]);
    let line = "{\"seq\":2,\"time\":\"2026-11-15T20:30:46.342Z\",\"node\":\"n1\",\"mark\":\"opened\",\"previous\":\"abababababababababababababababab\",\"chain\":\"abababababababababababababababab\"}\n";
    for name in ["000000000002.jsonl", "000000099999.jsonl"] {
        fs::write(
            site.data().join("audit").join(name),
            line.replace("\"seq\":2", &format!("\"seq\":{}", &name[6..12].trim_start_matches('0'))),
        )
        .expect("writes");
    }
    assert!(!whole(&site, &["--root", &root, "--head", &head]));
    let service = site.serve();
    service.look_up(PHONE, &token, ADA);
    service.look_up(EMAIL, &token, ADA);
    let subject = service.site.json(&["subject", ADA]);
    assert_eq!(subject["disclosures"].as_array().map(Vec::len), Some(3), "nothing is invisible");
    assert!(!whole(&service.site, &["--root", &root, "--head", &head]));
}

#[test]
fn many_refusals_are_counted_and_do_not_fill_the_disk() {
    let (service, token) = Service::with(&["--rate", "1/s"], "");
    let size = || -> u64 {
        let files = fs::read_dir(service.data().join("audit")).expect("lists");
        files.map(|file| file.expect("an entry").metadata().expect("a file").len()).sum()
    };
    let before = size();
    let mut connection = service.connect();
    let request = Request::lookup(PHONE, profile_body(ADA)).token(&token).bytes();
    let mut refused = 0;
    for _ in 0..5_000 {
        connection.send(&request);
        refused += u64::from(connection.reply().status == 429);
    }
    eventually("all are counted", || {
        let usage = service.site.json(&["usage"]);
        usage[0]["refused"] == refused
    });
    let grown = size() - before;
    assert!(grown < 100_000, "{refused} refusals took {grown} bytes");
    let shown = service.site.events(&["--outcome", "refused"]);
    let counted = shown.iter().map(|event| event["count"].as_u64().unwrap_or(1));
    assert_eq!(counted.sum::<u64>(), refused);
    assert!(whole(&service.site, &[]));
}

#[test]
fn with_a_quota_that_is_used_up_nobody_learns_who_is_on_file() {
    let (service, token) = Service::with(&["--quota", "1/day"], "");
    assert_eq!(service.look_up(PHONE, &token, NOBODY).status, 404, "a miss costs nothing");
    assert_eq!(service.look_up(PHONE, &token, ADA).status, 200);
    for url in [ADA, NOBODY, EVE] {
        // Also when the body comes late, after the quota was checked first.
        let request = Request::lookup(PHONE, profile_body(url)).token(&token).bytes();
        let end = request.windows(4).position(|bytes| bytes == b"\r\n\r\n").expect("a head") + 4;
        let mut connection = service.connect();
        connection.send(&request[..end]);
        std::thread::sleep(Duration::from_millis(30));
        connection.send(&request[end..]);
        let reply = connection.reply();
        assert_eq!((reply.status, reply.code().as_str()), (429, "quota_exceeded"), "{url}");
        assert!(
            reply.header("retry-after").is_some_and(|wait| wait.parse::<u64>().is_ok_and(|wait| wait > 1))
        );
    }
}

#[test]
fn after_any_kill_the_journal_is_whole_and_nothing_acknowledged_is_missing() {
    let mut site = Site::with_people();
    let token = site.token(&[]);
    let (mut answered, changed) = (HashSet::new(), Mutex::new(Vec::new()));
    for round in 0..3_u64 {
        let service = site.serve_with(&[], BUSY);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (service, token, stop, changed) = (&service, &token, &stop, &changed);
            let answering =
                scope.spawn(move || load(service, token, &format!("round{round}"), usize::MAX, stop));
            scope.spawn(move || {
                for number in 0.. {
                    let (what, ticket) =
                        (["suppress", "unsuppress"][number % 2], format!("T-{round}-{number}"));
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    if service.site.run(&[what, MIRA, "--ticket", &ticket]).code == 0 {
                        changed.lock().expect("a lock").push(ticket);
                    }
                }
            });
            std::thread::sleep(Duration::from_millis(80 + 137 * (round * 7 % 11)));
            service.signal(rustix::process::Signal::KILL);
            std::thread::sleep(Duration::from_millis(20));
            stop.store(true, Ordering::Relaxed);
            answered.extend(answering.join().expect("ends"));
        });
        site = service.kill();
        site.ok(&["audit", "verify"]);
    }
    assert!(answered.len() > 100, "{}", answered.len());
    let recorded = recorded_hits(&site);
    assert!(answered.is_subset(&recorded), "{} answered, {} recorded", answered.len(), recorded.len());
    let shown = site.events(&[]);
    let tickets: Vec<&str> = shown.iter().filter_map(|event| event["ticket"].as_str()).collect();
    for ticket in changed.into_inner().expect("a lock") {
        assert_eq!(tickets.iter().filter(|found| **found == ticket).count(), 1, "{ticket}");
    }
    let root = site.ok(&["audit", "root"]);
    assert!(whole(&site, &["--dir", &site.place("data"), "--root", &root]));
}

#[test]
fn a_changed_setting_is_on_record() {
    let site = Site::with_people().serve().stop();
    assert!(
        actions(&site).iter().all(|event| event["operation"] != "configuration"),
        "nothing has changed yet"
    );
    let site = site.serve_with(&[], "[audit]\nkeep = \"30d\"\n[limits]\nrate = \"50/s\"\n").stop();
    let events = actions(&site);
    let changed: Vec<&Value> = events.iter().filter(|event| event["operation"] == "configuration").collect();
    assert_eq!(changed.len(), 1, "{events:?}");
    assert_has(changed[0], json!({ "what": "audit.keep limits.rate", "/counts/changed": 2 }));
}
