//! The audit journal: nothing is disclosed without a line in it, and its lines can be verified.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::fixture::{ADA, EVE, NOBODY, assert_nothing_personal, many};
use crate::following::Follower;
use crate::http::{Connection, Request, profile_body};
use crate::refusals::unavailable;
use crate::service::{EMAIL, PHONE, Service, Site, assert_has, eventually};

/// A lookup with a name, which is its id in hexadecimal digits so that it is recorded as it is.
fn ask(name: &str, path: &str, token: &str, url: &str) -> Request {
    Request::lookup(path, profile_body(url)).token(token).header("X-Request-Id", &hex_id(name))
}

fn hex_id(name: &str) -> String {
    let digits: String = name.bytes().map(|byte| format!("{byte:02x}")).collect();
    format!("{digits:0<32}")
}

fn name_of(id: &str) -> String {
    let bytes = (0..id.len() / 2).filter_map(|at| u8::from_str_radix(&id[2 * at..2 * at + 2], 16).ok());
    bytes.filter(|byte| *byte != 0).map(char::from).collect()
}

/// The requests in the journal, oldest first. `audit show` has them newest first.
fn shown(site: &Site, flags: &[&str]) -> Vec<Value> {
    site.events(flags).into_iter().rev().filter(|event| event["actor"].is_null()).collect()
}

/// The names of the requests among the events.
fn ids(events: &[Value]) -> Vec<String> {
    events.iter().filter_map(|event| event["requestId"].as_str().map(name_of)).collect()
}

/// Waits until every line is signed.
pub(crate) fn until_signed(site: &Site) {
    eventually("it is signed", || !site.ok(&["audit", "verify"]).contains("not signed"));
}

pub(crate) fn segments(data: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(data.join("audit"))
        .expect("a journal")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.file_name().is_some_and(|name| name != "seals.jsonl"))
        .collect();
    files.sort();
    files
}

#[test]
fn hits_misses_and_refusals_of_a_token_are_recorded_and_nothing_personal_is() {
    let site = Site::with_people();
    let (token, other) = (site.token(&["--scope", "phone"]), site.ok(&["token", "create", "other"]));
    let service = site.serve();
    for (id, path, token, url, status) in [
        ("hit-1", PHONE, &token, ADA, 200),
        ("miss-1", PHONE, &token, NOBODY, 404),
        ("refused-1", PHONE, &token, "https://example.com/in/x", 400),
        ("scope-1", EMAIL, &token, ADA, 401),
        ("hit-2", EMAIL, &other, ADA, 200),
        ("nobody-1", PHONE, &"ctd_unknown".to_owned(), ADA, 401),
    ] {
        assert_eq!(service.send(&ask(id, path, token, url)).status, status, "{id}");
    }
    let site = &service.site;
    let all = shown(site, &[]);
    assert_eq!(ids(&all), ["hit-1", "miss-1", "refused-1", "scope-1", "hit-2"]);
    let outcomes: Vec<_> = all.iter().map(|event| event["outcome"].as_str().expect("text")).collect();
    assert_eq!(outcomes, ["hit", "miss", "refused", "refused", "hit"]);
    assert_eq!(all[2]["reason"], "invalid_profile_url");
    assert_eq!((&all[0]["operation"], &all[4]["operation"]), (&"phone".into(), &"email".into()));
    assert_eq!((&all[0]["tokenName"], &all[4]["tokenName"]), (&"test".into(), &"other".into()));
    assert_eq!(ids(&shown(site, &["--outcome", "hit"])), ["hit-1", "hit-2"]);
    assert_eq!(ids(&shown(site, &["--token", "other"])), ["hit-2"]);
    assert_eq!(ids(&shown(site, &["--profile", ADA])), ["hit-1", "hit-2"]);
    assert_eq!(ids(&shown(site, &["--profile", NOBODY, "--token", "test"])), ["miss-1"]);
    assert_eq!(ids(&shown(site, &["--limit", "2"])), ["scope-1", "hit-2"], "the newest");
    assert_eq!(ids(&shown(site, &["--since", "2099-01-01"])), [""; 0]);
    assert_eq!(ids(&shown(site, &["--until", "2099-01-01"])).len(), 5);
    assert!(site.ok(&["audit", "show"]).contains("refused: invalid_profile_url"));

    let usage = site.json(&["usage"]);
    let counts = |n: usize| {
        (
            usage[n]["name"].clone(),
            usage[n]["hits"].clone(),
            usage[n]["misses"].clone(),
            usage[n]["refused"].clone(),
        )
    };
    let both = [counts(0), counts(1)];
    assert!(both.contains(&("test".into(), 1.into(), 1.into(), 2.into())), "{usage}");
    assert!(both.contains(&("other".into(), 1.into(), 0.into(), 0.into())), "{usage}");
    assert!(site.ok(&["usage", "--csv"]).starts_with("day,token,name,hits,misses,refused\n20"));
    for file in segments(&service.data()) {
        assert_nothing_personal(&std::fs::read_to_string(file).expect("reads"));
    }
}

#[test]
fn a_server_without_an_index_indexes_no_lines_of_a_root_that_is_not_trusted() {
    // With keys of its own: sites with people are copies of one.
    let stranger = Site::empty();
    stranger.import_people();
    let token = stranger.token(&[]);
    let stranger = stranger.serve();
    assert_eq!(stranger.send(&ask("forged", PHONE, &token, ADA)).status, 200);
    let stranger = stranger.stop();
    let (service, token) = Service::with_people();
    assert_eq!(service.send(&ask("own", PHONE, &token, ADA)).status, 200);
    let site = service.stop();
    // Somebody puts another journal in its place, and the keys and the index are gone.
    for file in segments(&site.data()) {
        std::fs::remove_file(file).expect("removes");
    }
    std::fs::remove_file(site.data().join("audit/seals.jsonl")).ok();
    std::fs::remove_file(site.data().join("audit-index.db")).expect("removes");
    for key in ["journal-epoch-000001.key", "journal-signed"] {
        std::fs::remove_file(site.data().join("keys").join(key)).expect("removes");
    }
    for file in segments(&stranger.data()) {
        let name = file.file_name().expect("a name");
        std::fs::copy(&file, site.data().join("audit").join(name)).expect("copies");
    }
    let service = site.serve();
    assert_eq!(service.send(&ask("next", PHONE, &token, ADA)).status, 200);
    let site = service.stop();
    assert_eq!(ids(&shown(&site, &[])), ["next"]);
}

#[test]
fn an_edit_and_a_removed_tail_are_found_also_while_serving() {
    let (service, token) = Service::with_people();
    for number in 0..20 {
        service.send(&ask(&format!("r{number}"), PHONE, &token, ADA));
    }
    let site = &service.site;
    assert!(site.ok(&["audit", "verify"]).contains("whole: "));
    until_signed(site);
    let head = site.ok(&["audit", "head"]);
    site.ok(&["audit", "verify", "--head", &head]);
    let file = segments(&service.data()).remove(0);
    let good = std::fs::read_to_string(&file).expect("reads");
    let edited = good.replacen(&hex_id("r7"), &hex_id("r8"), 1);
    let number =
        1 + good.lines().zip(edited.lines()).position(|(good, edited)| good != edited).expect("edited");
    std::fs::write(&file, edited).expect("writes");
    let wrong = site.run(&["audit", "verify", "--json"]);
    assert_eq!(wrong.code, 1);
    let wrong = wrong.json();
    assert_has(&wrong, json!({ "isWhole": false, "/findings/0/line": number }));
    let short: String = good.split_inclusive('\n').take(12).collect();
    std::fs::write(&file, &short).expect("writes");
    site.run(&["audit", "verify", "--head", &head]).mentions(1, "the journal ends with line 12; lines 13 to");
    // Lines that the service writes later do not hide the missing ones.
    assert_eq!(service.send(&ask("after", PHONE, &token, ADA)).status, 200);
    site.run(&["audit", "verify"]).mentions(1, "are missing before this one");
    site.run(&["audit", "verify", "--head", "nonsense"]).mentions(2, "is not a head");
}

/// Sends lookups on several connections until `stop` is set. Returns the ids of all requests that were answered 200.
pub(crate) fn load(
    service: &Service,
    token: &str,
    name: &str,
    most: usize,
    stop: &AtomicBool,
) -> HashSet<String> {
    let (next, answered) = (AtomicUsize::new(0), Mutex::new(HashSet::new()));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut connection = Connection::open(service.public);
                while !stop.load(Ordering::Relaxed) {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= most {
                        return;
                    }
                    let (id, url) = (format!("{name}-{number}"), [ADA, EVE, NOBODY][number % 3]);
                    if !connection.try_send(ask(&id, EMAIL, token, url).bytes()) {
                        return;
                    }
                    let Some(reply) = connection.try_reply() else { return };
                    if reply.status == 200 {
                        answered.lock().expect("a lock").insert(id);
                    }
                }
            });
        }
    });
    answered.into_inner().expect("a lock")
}

pub(crate) fn recorded_hits(site: &Site) -> HashSet<String> {
    ids(&shown(site, &["--outcome", "hit"])).into_iter().collect()
}

/// Compiles the library that makes files and the clock fail, for `LD_PRELOAD`. faults.c says what `FAULTS` may ask for.
pub(crate) fn fault_library(site: &Site) -> PathBuf {
    let (source, library) =
        (concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/faults.c"), site.path("faults.so"));
    let made = Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source).status();
    assert!(made.expect("a compiler").success());
    library
}

/// A service whose journal, databases or clock fail on command.
pub(crate) struct Faulty {
    pub(crate) service: Service,
    pub(crate) token: String,
    control: PathBuf,
}

impl Faulty {
    pub(crate) fn start(sync: &str) -> Self {
        Self::start_with(sync, "")
    }

    pub(crate) fn start_with(sync: &str, config: &str) -> Self {
        let site = Site::with_people();
        let token = site.token(&[]);
        fault_library(&site);
        let control = PathBuf::from(site.file("faults", "ok"));
        Self { service: Self::serve(site, &control, sync, config), token, control }
    }

    /// A service on a site that has people and a token.
    pub(crate) fn on(site: Site, token: &str, how: &str, config: &str) -> Self {
        fault_library(&site);
        let control = PathBuf::from(site.file("faults", how));
        Self { service: Self::serve(site, &control, "os", config), token: token.to_owned(), control }
    }

    fn serve(site: Site, control: &Path, sync: &str, config: &str) -> Service {
        let (library, faults) = (site.path("faults.so").display().to_string(), control.display().to_string());
        let env = [("LD_PRELOAD", library.as_str()), ("FAULTS", faults.as_str())];
        site.serve_in(&["--audit-sync", sync], config, &env)
    }

    /// Kills the service, and starts it again with a journal that fails in this way.
    fn begin_anew(self, how: &str) -> Self {
        let Self { service, token, control } = self;
        let site = service.kill();
        std::fs::write(&control, how).expect("writes");
        Self { service: Self::serve(site, &control, "os", ""), token, control }
    }

    pub(crate) fn fail(&self, how: &str) {
        // Replaced atomically, so that the service never reads half of it.
        let next = self.control.with_extension("next");
        std::fs::write(&next, how).expect("writes");
        std::fs::rename(next, &self.control).expect("renames");
    }

    fn status(&self) -> u16 {
        self.service.look_up(PHONE, &self.token, ADA).status
    }

    /// Sends `most` lookups. Returns the ids that were answered 200, and whether any was answered 503.
    fn look_up(&self, name: &str, most: usize) -> (HashSet<String>, bool) {
        let answered = load(&self.service, &self.token, name, most, &AtomicBool::new(false));
        let refused = self.service.metrics().contains("outcome=\"service_unavailable\"");
        (answered, refused)
    }
}

#[test]
fn nothing_is_disclosed_while_the_journal_fails_and_it_recovers_by_itself() {
    for sync in ["os", "disk"] {
        let faulty = Faulty::start(sync);
        let mut answered = HashSet::new();
        for how in ["full", "read-only"] {
            faulty.fail(how);
            let (through, has_refused) = faulty.look_up(how, 200);
            assert!(through.is_empty() && has_refused, "{how}: {} disclosed", through.len());
            assert_eq!(faulty.service.look_up(PHONE, &faulty.token, ADA).shown(), unavailable());
            assert_eq!(faulty.service.send(&Request::get("/readyz")).status, 503);
            faulty.fail("ok");
            eventually("it recovers", || faulty.status() == 200);
            assert_eq!(faulty.service.send(&Request::get("/readyz")).status, 200);
        }
        for n in [1, 2, 3, 5, 9, 14] {
            for how in ["nth", "short", "sync"] {
                let how = format!("{how} {n}");
                faulty.fail(&how);
                answered.extend(faulty.look_up(&how.replace(' ', "-"), 60).0);
                eventually("it recovers unaided", || faulty.status() == 200);
            }
        }
        assert!(answered.len() > 300, "{sync}: {}", answered.len());
        assert!(answered.is_subset(&recorded_hits(&faulty.service.site)), "{sync}");
        faulty.service.site.ok(&["audit", "verify"]);
        faulty.service.has_logged("the audit journal cannot be written");
    }
}

#[test]
fn readyz_is_503_from_the_first_line_on_that_cannot_be_written_and_200_again_without_a_lookup() {
    for sync in ["os", "disk"] {
        let faulty = Faulty::start(sync);
        let readiness = || faulty.service.send(&Request::get("/readyz"));
        let recovers = || {
            faulty.fail("ok");
            eventually("it is ready again", || readiness().status == 200);
            assert_eq!(faulty.status(), 200);
        };
        for how in ["full", "read-only"] {
            assert_eq!(readiness().status, 200);
            faulty.fail(how);
            assert_eq!(faulty.service.look_up(PHONE, &faulty.token, ADA).shown(), unavailable());
            assert_eq!(readiness().shown(), unavailable());
            recovers();
        }
        // The line that signs the last lookup is the first that cannot be written.
        faulty.fail("full");
        eventually("it is not ready", || readiness().status == 503);
        recovers();
    }
}

#[test]
fn a_sync_that_fails_at_the_start_is_recorded_in_a_new_segment_and_the_old_one_is_not_changed() {
    let mut faulty = Faulty::start("os");
    let mut answered = HashSet::new();
    for round in 0..3 {
        answered.extend(faulty.look_up(&format!("round{round}"), 20).0);
        faulty = faulty.begin_anew("sync 1");
        eventually("it recovers unaided", || faulty.status() == 200);
    }
    answered.extend(faulty.look_up("last", 20).0);
    assert!(answered.len() > 40, "{}", answered.len());
    assert!(answered.is_subset(&recorded_hits(&faulty.service.site)));
    faulty.service.site.ok(&["audit", "verify"]);
}

#[test]
fn a_lookup_waits_only_a_limited_time_for_a_journal_that_hangs() {
    let faulty = Faulty::start("os");
    faulty.fail("hang");
    let began = Instant::now();
    assert_eq!(faulty.status(), 503);
    assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
    // Once the journal is known to hang, no lookup waits for it, and other requests do not either.
    let readiness = || faulty.service.send(&Request::get("/readyz")).status;
    eventually("it is known to hang", || readiness() == 503);
    let began = Instant::now();
    assert_eq!(faulty.status(), 503);
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    assert_eq!(faulty.service.send(&Request::get("/healthz")).status, 200);
    assert_eq!(readiness(), 503);
    faulty.fail("ok");
    eventually("it recovers", || faulty.status() == 200);
    faulty.service.site.ok(&["audit", "verify"]);
}

#[test]
fn every_lookup_that_waits_for_a_journal_that_hangs_is_answered() {
    let faulty = Faulty::start("os");
    let before = recorded_hits(&faulty.service.site).len();
    faulty.fail("hang");
    // Sent over some time, so that they start to wait at different moments.
    let mut connections: Vec<Connection> = (0..60)
        .map(|number| {
            let mut connection = faulty.service.connect();
            connection.send(ask(&format!("hang-{number}"), EMAIL, &faulty.token, ADA).bytes());
            std::thread::sleep(Duration::from_millis(if number % 10 == 0 { 40 } else { 0 }));
            connection
        })
        .collect();
    for connection in &mut connections {
        assert_eq!(connection.reply().shown(), unavailable());
    }
    faulty.fail("ok");
    eventually("it recovers", || faulty.status() == 200);
    assert!(faulty.service.metrics().contains("contactd_requests_in_flight 0"));
    // Their lines were written later, and the journal says that nothing was disclosed.
    let hits = shown(&faulty.service.site, &["--outcome", "hit"]);
    assert!(ids(&hits).iter().all(|id| !id.starts_with("hang-")), "{hits:?}");
    let late = shown(&faulty.service.site, &["--outcome", "refused"]);
    assert!(late.iter().any(|event| event["reason"] == "not_recorded_in_time"), "{late:?}");
    assert!(hits.len() > before);
    faulty.service.site.ok(&["audit", "verify"]);
    // Whoever follows has seen them as hits, and then sees which of them were none.
    let follower = Follower::start(&faulty.service.site, &["--since", "1h"]);
    let corrected = |lines: &[Value]| -> Vec<(u64, u64)> {
        let corrections = lines.iter().filter(|line| line["kind"] == "correction");
        corrections.filter_map(|line| Some((line["from"].as_u64()?, line["through"].as_u64()?))).collect()
    };
    let is_late = |line: &&Value| line["reason"] == "not_recorded_in_time";
    let late: Vec<u64> = late.iter().filter(is_late).filter_map(|line| line["seq"].as_u64()).collect();
    eventually("all corrections are shown", || {
        let corrected = corrected(&follower.printed());
        late.iter().all(|seq| corrected.iter().any(|(from, through)| (from..=through).contains(&seq)))
    });
    let shown = follower.end().0;
    let correction = shown.iter().find(|line| line["kind"] == "correction").expect("a correction");
    assert_has(correction, json!({ "outcome": "refused", "reason": "not_recorded_in_time" }));
}

#[test]
fn a_removed_line_is_found_even_if_a_sync_had_failed_before() {
    let faulty = Faulty::start("disk");
    assert_eq!(faulty.status(), 200);
    faulty.fail("sync 1");
    assert_eq!(faulty.status(), 503);
    faulty.fail("ok");
    for _ in 0..9 {
        eventually("it recovers", || faulty.status() == 200);
    }
    let site = &faulty.service.site;
    site.ok(&["audit", "verify"]);
    assert_eq!(shown(site, &["--outcome", "hit"]).len(), 10, "the lookup that was answered 503 is not a hit");
    let file = segments(&faulty.service.data()).pop().expect("a segment");
    let text = std::fs::read_to_string(&file).expect("reads");
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    std::fs::write(&file, [&lines[..4], &lines[6..]].concat().concat()).expect("writes");
    site.run(&["audit", "verify"]).mentions(1, "line 5: lines");
    // The index is rebuilt at once, so the next query finds its lines.
    assert!(!shown(site, &["--outcome", "hit"]).is_empty());
}

#[test]
fn without_its_keys_a_new_journal_follows_the_old_one_and_the_old_root_alone_does_not_trust_it() {
    let (service, token) = Service::with_people();
    service.send(&ask("one", PHONE, &token, ADA));
    let root = service.site.ok(&["audit", "root"]);
    let site = service.stop();
    let key = site.data().join("keys/journal-epoch-000001.key");
    let good = std::fs::read(&key).expect("reads");
    std::fs::write(&key, "{\"root\":").expect("writes");
    site.run(&["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"])
        .mentions(1, "is damaged; move it away");
    std::fs::write(&key, good).expect("writes");
    site.ok(&["audit", "verify", "--root", &root]);

    for name in ["journal-epoch-000001.key", "journal-signed"] {
        std::fs::remove_file(site.data().join("keys").join(name)).expect("removes");
    }
    let service = site.serve();
    service.send(&ask("two", PHONE, &token, ADA));
    assert_eq!(ids(&shown(&service.site, &[])), ["one", "two"]);
    service.site.run(&["audit", "verify"]).mentions(0, "begins a new journal, with a root of its own");
    service.site.run(&["audit", "verify", "--root", &root]).mentions(1, "which is not trusted");
    let both = service.site.ok(&["audit", "root"]);
    assert_ne!(both, root);
    service.site.ok(&["audit", "verify", "--root", &root, "--root", &both]);
}

#[test]
fn old_segments_are_compressed_and_removed_after_their_retention_time() {
    let (service, token) = Service::with(&[], "[audit]\nsegment_bytes = 4096\n");
    let file = service.site.file("many.csv", many("list-quell", 60));
    service.site.ok(&["import", &file, "--source", "crm", "--dry-run"]);
    for number in 0..60 {
        service.send(&ask(&format!("r{number}"), PHONE, &token, ADA));
    }
    let site = service.stop();
    let lists = site.data().join("audit/lists");
    let is_listed = || std::fs::read_dir(&lists).expect("a directory").count() == 1;
    assert!(is_listed());
    std::thread::sleep(Duration::from_millis(1_100));
    let service = site.serve_with(&[], "[audit]\nsegment_bytes = 4096\nkeep = \"1s\"\n");
    // Old segments are first checked at the start of the server.
    eventually("old lines are removed", || {
        let report = service.site.json(&["audit", "verify"]);
        report["first"].as_u64().is_some_and(|first| first > 20)
    });
    eventually("and the list that only they name", || !is_listed());
    let verified = service.site.run(&["audit", "verify"]);
    verified.mentions(0, "removed after their retention period");
    assert!(shown(&service.site, &[]).len() < 60);
    assert_eq!(service.site.json(&["usage"])[0]["hits"], 60, "the usage of tokens is kept: {verified:?}");
}

#[test]
fn a_backup_holds_the_journal_and_a_restore_keeps_the_newer_one() {
    let (service, token) = Service::with_people();
    service.send(&ask("before", PHONE, &token, ADA));
    service.site.ok(&["backup", "a.backup"]);
    let later = service.site.ok(&["token", "create", "later-crm"]);
    service.send(&ask("after", PHONE, &later, ADA));
    let (lost, kept) = (Site::empty(), Site::empty());
    lost.ok(&["restore", &service.site.place("a.backup"), "--accept-lost-opt-outs"]);
    assert_eq!(ids(&shown(&lost, &[])), ["before"]);
    assert_eq!(kept.restore(&service.site).code, 0);
    assert_eq!(ids(&shown(&kept, &[])), ["before", "after"]);
    assert_eq!(ids(&shown(&kept, &["--token", "later-crm"])), ["after"], "its name is known");
    let restored = kept.serve();
    restored.send(&ask("restored", PHONE, &token, ADA));
    assert_eq!(ids(&shown(&restored.site, &[])), ["before", "after", "restored"]);
    restored.site.ok(&["audit", "verify"]);
}

#[test]
fn missing_lines_that_were_indexed_are_reported_until_their_loss_is_accepted() {
    let (service, token) = Service::with_people();
    for number in 0..20 {
        service.send(&ask(&format!("r{number}"), PHONE, &token, ADA));
    }
    assert_eq!(shown(&service.site, &[]).len(), 20);
    let site = service.stop();
    let file = segments(&site.data()).remove(0);
    let text = std::fs::read_to_string(&file).expect("reads");
    let short: String = text.split_inclusive('\n').take(11).collect();
    std::fs::write(&file, short).expect("writes");
    site.run(&["audit", "verify"]).mentions(1, "the journal ends with line 11; lines 12 to");
    site.run(&["audit", "show", "--json"]).mentions(0, "are missing from the journal or were changed");
    site.run(&["audit", "verify"]).mentions(1, "before the index was rebuilt");
    let accepted = site.run(&["audit", "verify", "--accept-loss"]);
    assert!(!accepted.stdout.contains("before the index was rebuilt"), "{accepted:?}");
    accepted.mentions(1, "was signed, as keys/ shows");
    site.run(&["audit", "show", "--token", "nosuch"]).mentions(1, "there is no token");
}

#[test]
fn a_restore_does_not_replace_a_whole_journal_with_a_damaged_one() {
    let (service, token) = Service::with_people();
    for number in 0..5 {
        service.send(&ask(&format!("r{number}"), PHONE, &token, ADA));
    }
    service.site.ok(&["backup", "a.backup"]);
    let site = service.stop();
    let file = segments(&site.data()).remove(0);
    let text = std::fs::read_to_string(&file).expect("reads");
    std::fs::write(&file, text.replacen("\"hit\"", "\"miss\"", 1)).expect("writes");
    let other = Site::empty();
    other.restore(&site).mentions(0, "journal is the backup's");
    other.ok(&["audit", "verify"]);
    assert_eq!(shown(&other, &["--outcome", "hit"]).len(), 5);
}

#[test]
fn keys_may_come_from_a_file_or_from_the_environment() {
    let site = Site::empty();
    let digest = "ab".repeat(32);
    let env = [("CONTACTD_DIGEST_KEYS", digest.as_str())];
    let run = |args: &[&str]| site.run_with(args, crate::fixture::PEOPLE, &env);
    assert_eq!(run(&["import", "-", "--source", "crm"]).code, 0);
    assert_eq!(run(&["suppress", ADA]).code, 0);
    assert!(!site.data().join("keys/digest-001.key").exists(), "no digest key is created");
    site.run(&["stats"]).mentions(1, "are missing from");
    let token = run(&["token", "create", "test"]).stdout.trim().to_owned();
    let file = site.file("digest.keys", format!("{digest}\n{}\n", "ef".repeat(32)));
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("sets");
    let config = format!("[keys]\ndigest = \"{file}\"\n");
    let service = site.serve_in(&[], &config, &[]);
    assert_eq!(service.look_up(PHONE, &token, ADA).status, 404, "suppressed under the older key");
    assert_eq!(service.look_up(EMAIL, &token, EVE).status, 200);
    let bad = service.site.run_with(&["stats"], "", &[("CONTACTD_DIGEST_KEYS", "short")]);
    assert!(!bad.mentions(1, "64 hex digits").stderr.contains("short"), "{bad:?}");
}

#[test]
fn a_journal_that_is_moved_away_is_started_again_and_the_loss_is_reported() {
    let (service, token) = Service::with_people();
    assert_eq!(service.send(&ask("one", PHONE, &token, ADA)).status, 200);
    eventually("it is indexed", || ids(&shown(&service.site, &[])) == ["one"]);
    let open = segments(&service.data()).remove(0);
    std::fs::rename(&open, open.with_extension("1")).expect("renames");
    assert_eq!(service.send(&ask("two", PHONE, &token, ADA)).status, 200);
    assert!(ids(&shown(&service.site, &[])).contains(&"two".to_owned()), "it is in a new segment");
    assert_eq!(service.site.run(&["audit", "verify"]).code, 1);

    // The whole journal is deleted and the server restarted: its new disclosures are shown.
    let site = service.stop();
    std::fs::remove_dir_all(site.data().join("audit")).expect("removes");
    let service = site.serve();
    assert_eq!(service.send(&ask("three", PHONE, &token, ADA)).status, 200);
    assert_eq!(ids(&shown(&service.site, &[])), ["three"]);
    eventually("they are in her report", || {
        service.site.json(&["subject", ADA])["disclosures"][0]["requestId"] == hex_id("three")
    });
    assert_eq!(service.site.run(&["audit", "verify"]).code, 1, "the rest is reported as missing");
    service.site.run(&["doctor"]).mentions(1, "FAIL  journal");
}
