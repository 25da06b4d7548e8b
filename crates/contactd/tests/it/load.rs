//! Ten seconds at full load while everything changes: only the expected answers occur.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::fixture::{ADA, EVE, NOBODY, many};
use crate::http::{Connection, Request, profile_body};
use crate::service::{PHONE, Service, SetAtEnd, Site, eventually};

const LOAD: Duration = Duration::from_secs(2);

#[test]
fn nothing_unexpected_is_answered_while_tokens_people_and_records_change() {
    let site = Site::with_people();
    let token = site.token(&[]);
    let service = site.serve_with(&["--workers", "2"], "");
    let (answered, done) = (AtomicU64::new(0), AtomicBool::new(false));
    let started = Instant::now();
    std::thread::scope(|scope| {
        for url in [ADA, NOBODY] {
            let (service, token, answered, done) = (&service, &token, &answered, &done);
            scope.spawn(move || keep_asking(service, token, url, answered, done));
        }
        let changing = scope.spawn(|| change_tokens_and_people(&service, started));
        let importing = scope.spawn(|| import_again_and_again(&service, started));
        let _done = SetAtEnd(&done);
        changing.join().expect("the tokens and people changed as expected");
        importing.join().expect("the imports worked");
        eventually("2,000 answers", || answered.load(Ordering::Relaxed) > 2_000);
    });
    let metrics = service.metrics();
    for outcome in ["internal_error", "service_unavailable", "bad_request", "request_timeout"] {
        assert!(!metrics.contains(outcome), "{metrics}");
    }
}

fn keep_asking(service: &Service, token: &str, url: &str, answered: &AtomicU64, done: &AtomicBool) {
    let expected = if url == NOBODY { 404 } else { 200 };
    let request = Request::lookup(PHONE, profile_body(url)).token(token).bytes();
    let mut connection = service.connect();
    while !done.load(Ordering::Relaxed) {
        connection.send(&request);
        let reply = connection.reply();
        assert_eq!(reply.status, expected, "{}", reply.shown());
        answered.fetch_add(1, Ordering::Relaxed);
    }
}

/// Each change is in force when its command has returned.
fn change_tokens_and_people(service: &Service, started: Instant) {
    let mut round = 0;
    let mut connection: Connection = service.connect();
    let mut ask = |token: &str, url: &str| {
        connection.ask(&Request::lookup("/api/fetchPersonalEmail", profile_body(url)).token(token)).status
    };
    while started.elapsed() < LOAD || round <= 3 {
        round += 1;
        let made: serde_json::Value =
            serde_json::from_str(&service.site.ok(&["token", "create", &format!("round-{round}"), "--json"]))
                .expect("JSON");
        let (token, id) = (made["token"].as_str().expect("a token"), made["id"].as_str().expect("an id"));
        assert_eq!(ask(token, EVE), 200, "a new token is known, and Eve is there");
        service.site.ok(&["suppress", EVE]);
        assert_eq!(ask(token, EVE), 404, "Eve has opted out");
        service.site.ok(&["unsuppress", EVE]);
        assert_eq!(ask(token, EVE), 200, "Eve is back");
        service.site.ok(&["token", "revoke", id]);
        assert_eq!(ask(token, EVE), 401, "the token is revoked");
    }
}

fn import_again_and_again(service: &Service, started: Instant) {
    let mut round = 0;
    while started.elapsed() < LOAD {
        round += 1;
        let file = service.site.file("load.csv", many(&format!("load-{round}"), 10_000));
        service.site.ok(&["import", &file, "--source", "load"]);
    }
}
