//! Running a server: reloading, its log.

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::demo::Demo;
use crate::fixture::{ADA, MIRA, NOBODY};
use crate::http::Request;
use crate::service::{PHONE, Service, Site, assert_has, eventually};

/// What the server says about itself, after its start: level and message.
fn said(log: &str) -> Vec<String> {
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let of_server = lines.filter(|line| line["target"] == "contactd::server");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    of_server
        .map(|line| format!("{} {}", text(&line["level"]), text(&line["message"])))
        .filter(|said| !said.contains(" on http") && !said.contains(" data directory "))
        .collect()
}

/// Replaces the configuration, sends SIGHUP, and waits until the server has said `count` more things.
pub(crate) fn reload(service: &Service, config: &str, count: usize) -> Vec<String> {
    let before = said(&service.log.text()).len();
    service.site.file("serve.toml", config);
    service.signal(Signal::HUP);
    eventually("it has reloaded", || said(&service.log.text()).len() >= before + count);
    said(&service.log.text()).split_off(before)
}

#[test]
fn sighup_reloads_limits_and_networks_and_names_what_needs_a_restart() {
    let (service, token) = Service::with(&[], "[limits]\nbody_bytes = 60\n");
    let status = |url: &str| service.look_up(PHONE, &token, url).status;
    assert_eq!((status(ADA), status(MIRA)), (413, 413));
    let config = "data = \"elsewhere\"\n[serve]\nworkers = 7\n[networks]\nxing = false\n\
                  [limits]\nbody_bytes = 16384\nquota = \"1/month\"\n[audit]\nkeep = \"365d\"\nepoch = \"2h\"\n\
                  [retention]\nsweep_every = \"1h\"\n";
    assert_eq!(
        reload(&service, config, 2),
        [
            "INFO reloaded: audit.keep, retention.sweep_every, limits.quota, networks, network, limits.body_bytes",
            "WARN changed in the configuration, but needs a restart: audit.epoch, serve.workers",
        ]
    );
    assert_eq!((status(MIRA), status(ADA), status(ADA)), (400, 200, 429));
    assert_eq!(
        reload(&service, "", 1),
        ["INFO reloaded: audit.keep, retention.sweep_every, limits.quota, networks, network"]
    );
    assert_eq!((status(ADA), status(MIRA)), (200, 200));
    assert_eq!(reload(&service, "", 1), ["INFO reloaded: no setting has changed"]);
    let noted = service.site.events(&["--operation", "configuration"]);
    let noted: Vec<&Value> = noted.iter().map(|entry| &entry["counts"]["changed"]).collect();
    assert_eq!(noted, [4, 4], "both reloads are on record, without what needs a restart");
}

#[test]
fn a_configuration_with_an_error_changes_nothing_at_sighup() {
    let (service, token) = Service::with(&[], "[networks]\nxing = false\n");
    let file = service.site.path("serve.toml").display().to_string();
    assert_eq!(
        reload(&service, "[networks]\nxing = true\n[limits]\nquota = \"many\"\nbody = 1\n", 1),
        [format!(
            "ERROR cannot reload, nothing has changed: {file}, line 4: limits.quota: write a quota like \
                 10000/day or 200000/month (and 1 more: `contactd config check` lists them)"
        )]
    );
    assert_eq!(service.look_up(PHONE, &token, MIRA).status, 400);
    std::fs::remove_file(&file).expect("removes");
    service.signal(Signal::HUP);
    eventually("it has tried", || said(&service.log.text()).len() == 2);
    assert_eq!(
        said(&service.log.text())[1],
        format!(
            "ERROR cannot reload, nothing has changed: {file}: the configuration cannot be read: No such file or directory \
                 (os error 2)"
        )
    );
    assert_eq!(
        (service.look_up(PHONE, &token, MIRA).status, service.look_up(PHONE, &token, ADA).status),
        (400, 200)
    );
}

#[test]
fn sighup_changes_how_many_connections_are_accepted() {
    let service = Site::empty().serve_with(&[], "[limits]\nconnections = 1\n");
    let mut first = service.connect();
    assert_eq!(first.ask(&Request::get("/healthz")).status, 200);
    let mut second = service.connect();
    second.send(Request::get("/healthz").bytes());
    reload(&service, "[limits]\nconnections = 2\n", 1);
    assert_eq!(second.reply().status, 200);
    // Fewer again: those that are open stay.
    reload(&service, "[limits]\nconnections = 1\n", 1);
    for connection in [&mut first, &mut second] {
        assert_eq!(connection.ask(&Request::get("/healthz")).status, 200);
    }
    let mut third = service.connect();
    third.send(Request::get("/healthz").bytes());
    drop((first, second));
    assert_eq!(third.reply().status, 200);
}

#[test]
fn sighup_opens_the_log_file_again_and_changes_the_level() {
    let site = Site::empty();
    let file = site.path("contactd.log");
    let config = |level: &str| format!("[log]\nfile = \"{}\"\nlevel = \"{level}\"\n", file.display());
    site.file("contactd.toml", config("error"));
    let mut command = site.command();
    command.args(["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--access-log"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("starts");
    let read = || std::fs::read_to_string(&file).unwrap_or_default();
    eventually("it serves", || read().contains("admin on http://"));
    let address = read().split_once("listening on http://").expect("an address").1.to_owned();
    let address: std::net::SocketAddr =
        address.split_once(' ').expect("an address").0.parse().expect("an address");
    let ask = || {
        let mut connection = crate::http::Connection::open(address);
        assert_eq!(connection.ask(&Request::get("/healthz")).status, 200);
    };
    ask();
    assert_eq!(file.metadata().expect("a file").permissions().mode() & 0o777, 0o600);
    let rotated = site.path("contactd.log.1");
    std::fs::rename(&file, &rotated).expect("moves");
    site.file("contactd.toml", config("info"));
    let pid = Pid::from_child(&child);
    kill_process(pid, Signal::HUP).expect("signals");
    eventually("there is a new file", || read().contains("reloaded"));
    ask();
    eventually("the request is logged", || read().contains("\"status\":200"));
    kill_process(pid, Signal::TERM).expect("signals");
    assert!(child.wait().expect("ends").success());
    let old = std::fs::read_to_string(&rotated).expect("reads");
    assert!(!old.contains("reloaded") && !old.contains("\"status\":200"), "{old}");
    assert_eq!(
        said(&read()),
        [
            "INFO reloaded: log.level",
            "INFO contactd is stopping: answering the current requests",
            "INFO contactd has stopped",
        ]
    );
    let mut stderr = String::new();
    child.stderr.take().expect("a pipe").read_to_string(&mut stderr).expect("reads");
    assert_eq!(stderr, "", "everything is in the file");
}

#[test]
fn a_log_file_that_cannot_be_opened_again_changes_nothing_and_at_the_start_it_is_an_error() {
    let site = Site::empty();
    let nowhere = site.path("nowhere/contactd.log").display().to_string();
    let flags = ["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--log-format", "json"];
    let refused = site.run(&[&["serve", "--log-file", &nowhere][..], &flags].concat());
    assert_eq!(refused.code, 1);
    let why = format!("cannot open the log file {nowhere}: No such file or directory (os error 2)");
    assert_eq!(said(&refused.stderr), [format!("ERROR {why}")]);
    let service = site.serve();
    assert_eq!(
        reload(&service, &format!("[log]\nfile = \"{nowhere}\"\n"), 1),
        [format!("ERROR cannot reload, nothing has changed: {why}")]
    );
}

#[test]
fn a_demo_survives_sighup() {
    let mut demo = Demo::start(Site::empty(), &["--listen", "127.0.0.1:0"]);
    demo.signal(Signal::HUP);
    let mut log = demo.log.by_ref().map_while(Result::ok);
    assert!(log.any(|line| said(&line) == ["INFO reloaded: no setting has changed"]));
    demo.stop();
}

/// Every line as JSON; fails if one is not.
fn all_json(stderr: &str) -> Vec<Value> {
    let parse = |line| serde_json::from_str::<Value>(line).unwrap_or_else(|_| panic!("not JSON: {line}"));
    let lines: Vec<Value> = stderr.lines().map(parse).collect();
    for line in &lines {
        assert!(
            line["timestamp"].is_string() && line["level"].is_string() && line["message"].is_string(),
            "{line}"
        );
    }
    lines
}

#[test]
fn with_json_logs_every_line_on_stderr_is_json_from_the_first_to_the_last() {
    let (mut service, token) = Service::with_people();
    service.look_up(PHONE, &token, ADA);
    reload(&service, "[serve]\nlisten = \"127.0.0.1:1\"\n[limits]\nhead_bytes = 2000\n", 1);
    service.signal(Signal::TERM);
    assert_eq!(service.wait(), 0);
    eventually("the log is complete", || service.log.text().contains("has stopped"));
    let lines = all_json(&service.log.text());
    for words in ["listening on http://", "admin on http://", "is stopping", "has stopped"] {
        service.has_logged(words);
    }
    assert!(lines.iter().any(|line| line["status"] == 200), "the request");
}

#[test]
fn a_start_that_fails_is_reported_as_json_too() {
    let (service, _) = Service::with_people();
    let other = Site::empty();
    let public = service.public.to_string();
    let broken = other.file("broken.toml", "[log]\nformat = \"json\"\nlevel = \"loud\"\n");
    let taken = format!(
        "cannot listen on {public}; choose another address with --listen: Address already in use (os error 98)"
    );
    let loud = format!(
        "{broken}, line 3: log.level: unknown variant `loud`, expected one of `error`, `warn`, `info`, `debug`, `trace`"
    );
    let remote = "--admin-listen 0.0.0.0:1 can be reached from other machines, and its /metrics asks for no password. \
                  Choose a loopback address such as 127.0.0.1:8081, or set `allow_remote = true` under [admin] in the \
                  configuration file";
    for (args, code, message) in [
        (&["--listen", &public, "--log-format", "json"][..], 1, taken.as_str()),
        (&["--config", &broken], 1, &loud),
        (&["--admin-listen", "0.0.0.0:1"], 2, remote),
    ] {
        let failed = other.run(&[&["serve"], args].concat());
        assert_eq!(failed.code, code, "{failed:?}");
        let lines = all_json(&failed.stderr);
        assert_eq!(lines.len(), 1, "{failed:?}");
        assert_has(&lines[0], json!({ "level": "ERROR", "message": message }));
    }
    let human = other.run(&["serve", "--listen", &public, "--log-format", "human"]);
    assert_eq!(human.stderr, format!("contactd: {taken}\n"));
}

#[test]
fn metrics_say_when_the_last_import_and_backup_were_and_what_each_token_did() {
    let site = Site::empty();
    let idle = site.ok(&["token", "create", "crm \\ \"east\"", "--json", "--expires", "never"]);
    let used = site.ok(&["token", "create", "ats", "--json", "--expires", "1d"]);
    let [idle, used] = [idle, used].map(|text| serde_json::from_str::<Value>(&text).expect("JSON"));
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let (id, token) = (text(&used["id"]), text(&used["token"]));
    let service = site.serve();
    let value = |name: &str| service.metric(name);
    let (import, backup) =
        ("contactd_last_import_timestamp_seconds", "contactd_last_backup_timestamp_seconds");
    assert_eq!((value(import), value(backup)), (None, None));
    let now = || std::time::SystemTime::UNIX_EPOCH.elapsed().expect("a clock").as_secs();
    let before = now();
    service.site.import_people();
    service.site.ok(&["backup", "a.backup"]);
    let during = before..=now();
    assert!(
        value(import).is_some_and(|at| during.contains(&at))
            && value(backup).is_some_and(|at| during.contains(&at))
    );

    for url in [ADA, NOBODY, "x", MIRA] {
        service.look_up(PHONE, &token, url);
    }
    let count = |outcome: &str| {
        value(&format!("contactd_token_requests_total{{token=\"{id}\",name=\"ats\",outcome=\"{outcome}\"}}"))
    };
    let counts = || ["hit", "miss", "refused"].map(count);
    assert_eq!(counts(), [Some(2), Some(1), Some(1)]);
    eventually("they are stored", || service.site.list(&["token", "list"])[1]["hits"] == 2);
    assert_eq!(counts(), [Some(2), Some(1), Some(1)]);
    let labels = format!("token=\"{}\",name=\"crm \\\\ \\\"east\\\"\"", text(&idle["id"]));
    assert_eq!(value(&format!("contactd_token_requests_total{{{labels},outcome=\"hit\"}}")), Some(0));
    assert_eq!(value(&format!("contactd_token_expires_timestamp_seconds{{{labels}}}")), None);
    let expires = value(&format!("contactd_token_expires_timestamp_seconds{{token=\"{id}\",name=\"ats\"}}"));
    assert!(expires.is_some_and(|at| at > before + 86_000 && at <= now() + 86_400), "{expires:?}");
}
