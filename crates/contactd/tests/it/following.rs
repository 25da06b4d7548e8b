//! `audit show --follow`: every line once it is signed, once, whatever happens to servers and files meanwhile.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use contactd_testing::TestServer;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::cluster::{Road, id_of, machine, named, nodes};
use crate::fixture::{ADA, EVE, MIRA, NOBODY, assert_nothing_personal, many};
use crate::service::{EMAIL, KilledAtEnd, PHONE, Service, Site, copy_directory, eventually};

/// A follower that runs, and what it has printed.
pub(crate) struct Follower {
    process: KilledAtEnd,
    printed: Arc<Mutex<Vec<Value>>>,
    stderr: ChildStderr,
}

impl Follower {
    pub(crate) fn start(site: &Site, flags: &[&str]) -> Self {
        let mut child = spawn(site, &[&["--json"], flags].concat());
        let printed: Arc<Mutex<Vec<Value>>> = Arc::default();
        let (out, into) = (child.stdout.take().expect("a pipe"), Arc::clone(&printed));
        let stderr = child.stderr.take().expect("a pipe");
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                assert_nothing_personal(&line);
                let line = serde_json::from_str(&line).unwrap_or_else(|_| panic!("not JSON: {line}"));
                into.lock().expect("a lock").push(line);
            }
        });
        Self { process: KilledAtEnd(child), printed, stderr }
    }

    pub(crate) fn printed(&self) -> Vec<Value> {
        self.printed.lock().expect("a lock").clone()
    }

    /// Waits until it has printed a line like this.
    pub(crate) fn wait_for(&self, what: &str, is_it: impl Fn(&Value) -> bool) {
        eventually(what, || self.printed().iter().any(&is_it));
    }

    /// Waits for the number of this request or action.
    fn wait_for_count(&self, operation: &str, count: usize) {
        eventually("it has printed them", || {
            self.printed().iter().filter(|line| line["operation"] == operation).count() >= count
        });
    }

    /// Ends it, and gives what it has printed and said.
    pub(crate) fn end(mut self) -> (Vec<Value>, String) {
        kill_process(Pid::from_child(&self.process.0), Signal::TERM).expect("signals");
        assert_eq!(exit_code(&mut self.process.0), 0);
        let mut said = String::new();
        self.stderr.read_to_string(&mut said).expect("reads");
        (self.printed(), said)
    }
}

fn spawn(site: &Site, flags: &[&str]) -> Child {
    let mut command = site.command();
    command.args(["audit", "show", "--follow"]).args(flags);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("starts")
}

/// The code with which a process ends by itself.
fn exit_code(child: &mut Child) -> i32 {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(status) = child.try_wait().expect("waits") {
            return status.code().unwrap_or(-1);
        }
        assert!(Instant::now() < until, "it does not end");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Where lines are: the node and the number of each.
fn numbers(lines: &[Value]) -> Vec<(String, u64)> {
    let number = |line: &Value| Some((line["node"].as_str()?.to_owned(), line["seq"].as_u64()?));
    lines.iter().map(|line| number(line).unwrap_or_else(|| panic!("no number: {line}"))).collect()
}

/// What `audit show` lists, oldest first.
fn listed(site: &Site, flags: &[&str]) -> Vec<Value> {
    site.events(flags).into_iter().rev().collect()
}

fn last_place(lines: &[Value]) -> String {
    lines.last().and_then(|line| line["place"].as_str()).expect("a place").to_owned()
}

fn look_up_often(service: &Service, token: &str, count: usize) {
    for _ in 0..count {
        assert_eq!(service.look_up(PHONE, token, ADA).status, 200);
    }
}

/// Fails unless this is everything that `audit show` lists, once and in the order of each journal.
fn assert_is_everything(lines: &[Value], site: &Site) {
    let (followed, mut all) = (numbers(lines), numbers(&listed(site, &[])));
    assert_eq!(followed.len(), all.len());
    let mut sorted = followed.clone();
    sorted.sort();
    all.sort();
    assert_eq!(sorted, all);
    for (node, _) in &all {
        let of_node: Vec<u64> = followed.iter().filter(|(of, _)| of == node).map(|(_, seq)| *seq).collect();
        assert!(of_node.is_sorted(), "{of_node:?}");
    }
}

#[test]
fn each_line_is_shown_once_through_new_files_new_keys_restarts_and_kills() {
    const BUSY: &str = "[audit]\nsegment_bytes = 20000\nepoch = \"1s\"\n";
    let site = Site::with_people();
    let token = site.token(&[]);
    let mut service = site.serve_with(&[], BUSY);
    look_up_often(&service, &token, 100);
    let follower = Follower::start(&service.site, &["--since", "1h"]);
    follower.wait_for_count("phone", 50);
    for round in 0..4 {
        look_up_often(&service, &token, 100);
        let site = if round % 2 == 0 { service.kill() } else { service.stop() };
        if round == 1 {
            // Without a server, a command writes the journal.
            site.ok(&["token", "create", "between"]);
        }
        service = site.serve_with(&[], BUSY);
    }
    service.site.ok(&["suppress", EVE]);
    eventually("old files are compressed", || {
        std::fs::read_dir(service.data().join("audit")).expect("reads").count() > 5
    });
    follower.wait_for("the opt-out", |line| line["operation"] == "suppress");
    follower.wait_for_count("phone", 500);
    let (lines, said) = follower.end();
    assert_eq!(said, "");
    assert_is_everything(&lines, &service.site);
    let first = lines.iter().find(|line| line["kind"] == "request").expect("a request");
    assert_eq!((&first["outcome"], &first["tokenName"]), (&"hit".into(), &"test".into()));
    let tokens = lines.iter().filter(|line| line["kind"] == "admin" && line["operation"] == "token create");
    assert_eq!(tokens.count(), 2);
    // As one that is started now shows it.
    let again = Follower::start(&service.site, &["--since", "1h"]);
    again.wait_for("the opt-out", |line| line["operation"] == "suppress");
    assert_eq!(numbers(&again.end().0), numbers(&lines));
}

#[test]
fn lines_that_are_not_signed_are_not_shown_before_they_are() {
    let (service, token) = Service::with_people();
    let follower = Follower::start(&service.site, &["--since", "1h"]);
    look_up_often(&service, &token, 3);
    follower.wait_for_count("phone", 3);
    let is_unsigned = |site: &Site| site.json(&["audit", "verify"])["unsigned"].as_u64() > Some(0);
    let mut service = service;
    // A kill before the next signature leaves lines without one; it may come just after it, too.
    let site = loop {
        look_up_often(&service, &token, 1);
        let site = service.kill();
        if is_unsigned(&site) {
            break site;
        }
        service = site.serve();
    };
    let signed = site.json(&["audit", "verify"])["signed"]["seq"].as_u64().expect("a number");
    std::thread::sleep(Duration::from_secs(2));
    let last = follower.printed().last().and_then(|line| line["seq"].as_u64()).expect("a number");
    assert!(last <= signed, "line {last} is shown, and what is signed ends with {signed}");
    let service = site.serve();
    service.site.ok(&["suppress", EVE]);
    follower.wait_for("the opt-out", |line| line["operation"] == "suppress");
    assert_is_everything(&follower.end().0, &service.site);
}

#[test]
fn without_since_only_new_lines_are_shown_and_another_follower_goes_on_after_the_last_place() {
    let (service, token) = Service::with(&[], "[audit]\nsegment_bytes = 4096\n");
    look_up_often(&service, &token, 30);
    crate::audit::until_signed(&service.site);
    let before = listed(&service.site, &[]).len();
    let first = Follower::start(&service.site, &[]);
    // It has begun once it shows something.
    eventually("it has begun", || {
        service.look_up(EMAIL, &token, NOBODY);
        !first.printed().is_empty()
    });
    look_up_often(&service, &token, 30);
    first.wait_for_count("phone", 30);
    let mut lines = first.end().0;
    assert!(lines.iter().all(|line| line["seq"].as_u64() > Some(before as u64)));
    look_up_often(&service, &token, 30);
    for _ in 0..3 {
        look_up_often(&service, &token, 30);
        let next = Follower::start(&service.site, &["--after", &last_place(&lines)]);
        next.wait_for_count("phone", 30);
        lines.extend(next.end().0);
    }
    crate::audit::until_signed(&service.site);
    let last = Follower::start(&service.site, &["--after", &last_place(&lines), "--operation", "suppress"]);
    service.site.ok(&["suppress", EVE]);
    last.wait_for("the opt-out", |line| line["operation"] == "suppress");
    let (opt_out, said) = last.end();
    assert_eq!((opt_out.len(), said.as_str()), (1, ""));
    let rest = Follower::start(&service.site, &["--after", &last_place(&lines), "--outcome", "hit"]);
    let all = listed(&service.site, &["--outcome", "hit"]);
    let wanted = all.len() - 30;
    let hits = |lines: &[Value]| lines.iter().filter(|line| line["outcome"] == "hit").count();
    eventually("the rest is shown", || hits(&lines) + hits(&rest.printed()) >= wanted);
    lines.extend(rest.end().0);
    lines.retain(|line| line["outcome"] == "hit");
    assert_eq!(numbers(&lines), numbers(&all)[30..]);
}

#[test]
fn a_follower_shows_what_its_flags_select_also_of_lists_and_tokens_that_are_made_later() {
    let (service, token) = Service::with_people();
    let site = &service.site;
    let start = |flags: &[&str]| Follower::start(site, &[&["--since", "1h"], flags].concat());
    let phone = "+14155550142";
    let followers = [
        start(&["--profile", "https://www.linkedin.com/in/list-quell-00003"]),
        start(&["--outcome", "miss"]),
        start(&["--operation", "token create"]),
        start(&["--token", "test"]),
        start(&["--phone", phone]),
        start(&["--actor", "nobody-of-this-name"]),
    ];
    let file = site.file("many.csv", many("list-quell", 60));
    site.ok(&["import", &file, "--source", "crm"]);
    let later = site.ok(&["token", "create", "later"]);
    assert_eq!(service.look_up(PHONE, &later, ADA).status, 200);
    assert_eq!(service.look_up(PHONE, &token, NOBODY).status, 404);
    assert_eq!(service.look_up(PHONE, &later, MIRA).status, service.look_up(PHONE, &token, MIRA).status);
    site.ok(&["suppress", "--phone", phone]);
    let everything = Follower::start(site, &["--since", "1h"]);
    everything.wait_for("the last one", |line| line["operation"] == "suppress");
    everything.wait_for("its name", |line| line["tokenName"] == "later");
    let shown = listed(site, &[]);
    let wanted: [&[&str]; 6] = [
        &["--profile", "https://www.linkedin.com/in/list-quell-00003"],
        &["--outcome", "miss"],
        &["--operation", "token create"],
        &["--token", "test"],
        &["--phone", phone],
        &["--actor", "nobody-of-this-name"],
    ];
    for (follower, flags) in followers.into_iter().zip(wanted) {
        let wanted = listed(site, flags);
        assert_eq!(wanted.is_empty(), flags[0] == "--actor", "{flags:?}");
        eventually("they are shown", || follower.printed().len() >= wanted.len());
        let (lines, said) = follower.end();
        assert_eq!((numbers(&lines), said.as_str()), (numbers(&wanted), ""), "{flags:?}");
    }
    assert_eq!(numbers(&everything.end().0), numbers(&shown));
}

#[test]
fn a_follower_ends_with_0_when_it_is_asked_to_and_when_nobody_reads_it_any_more() {
    let (service, token) = Service::with_people();
    look_up_often(&service, &token, 2);
    crate::audit::until_signed(&service.site);
    for signal in [Signal::INT, Signal::TERM] {
        let mut child = KilledAtEnd(spawn(&service.site, &["--since", "1h"]));
        let mut lines = BufReader::new(child.0.stdout.take().expect("a pipe")).lines();
        let header = lines.next().expect("a line").expect("reads");
        assert!(header.starts_with("TIME "), "{header}");
        assert!(lines.any(|line| line.expect("reads").contains("  phone           hit ")));
        kill_process(Pid::from_child(&child.0), signal).expect("signals");
        assert_eq!(exit_code(&mut child.0), 0);
    }
    // Also while it writes to a pipe that nobody empties, and while it has nothing to write.
    let quiet = spawn(&service.site, &["--json"]);
    let mut quiet = KilledAtEnd(quiet);
    drop(quiet.0.stdout.take());
    assert_eq!(exit_code(&mut quiet.0), 0);
    for _ in 0..4 {
        look_up_often(&service, &token, 100);
    }
    crate::audit::until_signed(&service.site);
    let mut full = KilledAtEnd(spawn(&service.site, &["--json", "--since", "1h"]));
    let mut beginning = [0; 100];
    full.0.stdout.as_mut().expect("a pipe").read_exact(&mut beginning).expect("reads");
    std::thread::sleep(Duration::from_millis(500));
    kill_process(Pid::from_child(&full.0), Signal::TERM).expect("signals");
    assert_eq!(exit_code(&mut full.0), 0);
    let mut cut = KilledAtEnd(spawn(&service.site, &["--json", "--since", "1h"]));
    cut.0.stdout.as_mut().expect("a pipe").read_exact(&mut beginning).expect("reads");
    drop(cut.0.stdout.take());
    assert_eq!(exit_code(&mut cut.0), 0);
    let mut said = String::new();
    cut.0.stderr.take().expect("a pipe").read_to_string(&mut said).expect("reads");
    assert_eq!(said, "");
}

#[test]
fn what_makes_no_sense_with_follow_is_refused() {
    let site = Site::empty();
    site.import_people();
    for (flags, why) in [
        (&["--csv"][..], "the argument '--follow' cannot be used with '--csv'"),
        (&["--limit", "5"], "the argument '--follow' cannot be used with '--limit <COUNT>'"),
        (&["--until", "2099-01-01"], "the argument '--follow' cannot be used with '--until <TIME>'"),
        (&["--by", "recipient"], "the argument '--follow' cannot be used with '--by <WHAT>'"),
        (&["--after", "12"], "it is not a place in the journals"),
        (&["--after", "1-00000000-a", "--since", "1h"], "cannot be used with"),
    ] {
        site.run(&[&["audit", "show", "--follow"], flags].concat()).mentions(2, why);
    }
    site.run(&["audit", "show", "--after", "1-00000000-a"]).mentions(2, "--follow");
    site.run(&["audit", "show", "--follow", "--token", "nobody"]).mentions(1, "there is no token `nobody`");
}

#[test]
fn a_follower_says_which_lines_were_removed_before_it_could_show_them() {
    let (service, token) = Service::with(&[], "[audit]\nsegment_bytes = 4096\n");
    let follower = Follower::start(&service.site, &["--since", "1h"]);
    look_up_often(&service, &token, 5);
    follower.wait_for_count("phone", 5);
    let (lines, _) = follower.end();
    look_up_often(&service, &token, 60);
    let site = service.stop();
    std::thread::sleep(Duration::from_millis(1_100));
    let service = site.serve_with(&[], "[audit]\nsegment_bytes = 4096\nkeep = \"1s\"\n");
    eventually("old lines are removed", || {
        service.site.json(&["audit", "verify"])["first"].as_u64().is_some_and(|first| first > 30)
    });
    let next = Follower::start(&service.site, &["--after", &last_place(&lines)]);
    service.site.ok(&["suppress", EVE]);
    next.wait_for("the opt-out", |line| line["operation"] == "suppress");
    let (rest, said) = next.end();
    assert!(said.contains(" were removed after their retention period before they could be shown"), "{said}");
    let numbers: Vec<u64> = numbers(&rest).into_iter().map(|(_, seq)| seq).collect();
    assert!(numbers.is_sorted());
}

#[test]
fn a_journal_that_does_not_continue_what_was_shown_is_said_and_shown() {
    let (service, token) = Service::with_people();
    look_up_often(&service, &token, 3);
    let site = service.stop();
    let earlier = site.path("earlier");
    copy_directory(&site.data(), &earlier);
    let follower = Follower::start(&site, &["--since", "1h"]);
    follower.wait_for_count("phone", 3);
    let service = site.serve();
    look_up_often(&service, &token, 3);
    follower.wait_for_count("phone", 6);
    let lines = follower.end().0;
    // Somebody puts an older copy of the data directory back.
    let site = service.stop();
    std::fs::remove_dir_all(site.data()).expect("removes");
    std::fs::rename(earlier, site.data()).expect("moves");
    let service = site.serve();
    let next = Follower::start(&service.site, &["--after", &last_place(&lines)]);
    service.site.ok(&["suppress", EVE]);
    next.wait_for("the opt-out", |line| line["operation"] == "suppress");
    let (_, said) = next.end();
    assert!(said.contains(" does not continue what was shown up to line "), "{said}");
}

#[test]
fn a_follower_goes_on_when_a_journal_that_was_moved_away_is_back() {
    let (service, token) = Service::with_people();
    let follower = Follower::start(&service.site, &["--since", "1h"]);
    look_up_often(&service, &token, 3);
    follower.wait_for_count("phone", 3);
    let site = service.stop();
    let (here, away) = (site.data().join("audit"), site.path("away"));
    std::fs::rename(&here, &away).expect("moves");
    std::thread::sleep(Duration::from_secs(1));
    std::fs::rename(&away, &here).expect("moves");
    let service = site.serve();
    look_up_often(&service, &token, 3);
    follower.wait_for_count("phone", 6);
    let (lines, said) = follower.end();
    assert!(said.contains("are gone") && said.ends_with("contactd: following again\n"), "{said}");
    assert_is_everything(&lines, &service.site);
}

#[test]
fn in_a_cluster_the_lines_of_all_nodes_are_followed_on_a_node_and_on_a_machine_without_one() {
    let (mut nodes, token) = nodes(&["a", "b"], "");
    let url = nodes[0].site.database().expect("a database").to_owned();
    let desk = machine(&url, &nodes[0].site);
    let followers =
        [Follower::start(&desk, &["--since", "1h"]), Follower::start(&nodes[0].site, &["--since", "1h"])];
    let late = Follower::start(&desk, &["--operation", "phone"]);
    eventually("it has begun", || {
        nodes[0].look_up(PHONE, &token, MIRA);
        !late.printed().is_empty()
    });
    look_up_often(&nodes[0], &token, 20);
    look_up_often(&nodes[1], &token, 20);
    let b = nodes.pop().expect("a node");
    let id = id_of(&b.site, "b");
    let b = b.kill().serve_with(&[], &named("b", "[audit]\nsegment_bytes = 4096\n"));
    look_up_often(&b, &token, 20);
    // A node that joins later.
    let c = machine(&url, &nodes[0].site).serve_with(&[], &named("c", ""));
    look_up_often(&c, &token, 20);
    let c = c.stop();
    let is_of_c = |line: &Value| line["node"] == id_of(&desk, "c").as_str();
    for follower in &followers {
        follower.wait_for_count("phone", 80);
        eventually("the last node is shown", || {
            follower.printed().iter().filter(|line| is_of_c(line)).count() >= 20
        });
    }
    desk.ok(&["suppress", EVE]);
    for follower in &followers {
        follower.wait_for("the opt-out", |line| line["operation"] == "suppress");
    }
    late.wait_for("the last node", is_of_c);
    drop(c);
    let [from_desk, from_node] = followers.map(Follower::end);
    for (lines, said) in [&from_desk, &from_node] {
        assert_eq!(said, "");
        assert_is_everything(lines, &desk);
    }
    // One that goes on has every other line, of each node.
    let half = &from_desk.0[..from_desk.0.len() / 2];
    let next = Follower::start(&desk, &["--after", &last_place(half)]);
    eventually("the rest is shown", || half.len() + next.printed().len() >= from_desk.0.len());
    let (rest, said) = next.end();
    assert_eq!(said, "");
    assert_is_everything(&[half, &rest].concat(), &desk);
    assert!(rest.iter().any(|line| line["node"] == id.as_str()));
}

#[test]
fn a_follower_waits_for_a_database_that_is_away_and_goes_on() {
    let server = TestServer::shared();
    let url = server.database();
    let site = Site::on(&url);
    site.import_people();
    let road = Road::to(server.port());
    let desk = machine(&url.replace(&server.port().to_string(), &road.address.port().to_string()), &site);
    let token = site.token(&[]);
    let node = site.serve_with(&[], &named("a", ""));
    let follower = {
        desk.file("short.toml", "[cluster]\npatience = \"1s\"\n");
        Follower::start(&desk, &["--since", "1h", "--config", &desk.place("short.toml")])
    };
    look_up_often(&node, &token, 5);
    follower.wait_for_count("phone", 5);
    road.cut();
    look_up_often(&node, &token, 5);
    std::thread::sleep(Duration::from_secs(4));
    road.mend();
    follower.wait_for_count("phone", 10);
    let (lines, said) = follower.end();
    assert!(said.contains("; trying again\n") && said.ends_with("contactd: following again\n"), "{said}");
    assert_is_everything(&lines, &node.site);
}
