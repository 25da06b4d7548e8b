//! Rates and quotas.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::fixture::{ADA, NOBODY};
use crate::http::{Connection, Reply, Request, profile_body};
use crate::progress::busy;
use crate::service::{EMAIL, PHONE, Service, Site, eventually};

fn limits(reply: &Reply) -> (Option<&str>, Option<&str>) {
    (reply.header("ratelimit-policy"), reply.header("ratelimit"))
}

#[test]
fn a_rate_allows_its_burst_and_then_says_when_to_retry() {
    let (service, token) = Service::with(&["--rate", "2/h", "--burst", "3"], "");
    for left in [2, 1, 0] {
        let reply = service.look_up(PHONE, &token, ADA);
        assert_eq!(reply.status, 200);
        assert_eq!(reply.header("ratelimit-policy"), Some("\"rate\";q=3;w=5400"));
        assert!(
            reply
                .header("ratelimit")
                .is_some_and(|limit| limit.starts_with(&format!("\"rate\";r={left};t=")))
        );
    }
    let reply = service.look_up(PHONE, &token, ADA);
    assert_eq!((reply.status, reply.code().as_str()), (429, "rate_limited"));
    let retry: u64 = reply.header("retry-after").expect("a time").parse().expect("seconds");
    assert!((1790..=1800).contains(&retry), "{retry}");
    assert!(limits(&reply).0.is_some() && limits(&reply).1.is_some());
    assert_eq!(reply.json()["message"], "Too many requests; retry after the time in Retry-After.");
}

#[test]
fn a_quota_counts_hits_and_never_misses_or_refusals() {
    let (service, token) = Service::with(&["--quota", "2/month"], "");
    for _ in 0..5 {
        assert_eq!(service.look_up(PHONE, &token, NOBODY).status, 404);
        assert_eq!(service.look_up(PHONE, &token, "x").status, 400);
    }
    assert!(
        service
            .look_up(PHONE, &token, NOBODY)
            .header("ratelimit")
            .is_some_and(|left| left.starts_with("\"quota\";r=2;t="))
    );
    assert_eq!(service.look_up(PHONE, &token, ADA).status, 200);
    assert_eq!(service.look_up(EMAIL, &token, ADA).status, 200);
    let reply = service.look_up(PHONE, &token, ADA);
    assert_eq!((reply.status, reply.code().as_str()), (429, "quota_exceeded"));
    let retry: u64 = reply.header("retry-after").expect("a time").parse().expect("seconds");
    assert!((1..=31 * 86_400).contains(&retry));
    assert_eq!(service.look_up(PHONE, &token, NOBODY).status, 429, "the quota is checked before the body");
}

/// Looks up until the quota is used up, and says how often it was answered.
fn use_up(service: &Service, tokens: &[&str]) -> u64 {
    let mut answered = 0;
    for token in tokens.iter().cycle() {
        match counted(service, token).status {
            200 => answered += 1,
            429 => return answered,
            status => panic!("{status}"),
        }
    }
    answered
}

fn use_some(service: &Service, token: &str, times: u64) {
    for _ in 0..times {
        assert_eq!(counted(service, token).status, 200);
    }
}

/// Looks up; again if it is still counted what a killed server used.
fn counted(service: &Service, token: &str) -> Reply {
    loop {
        let reply = service.look_up(PHONE, token, ADA);
        if reply.status != 503 {
            return reply;
        }
        assert_eq!((reply.code().as_str(), reply.header("retry-after")), ("service_unavailable", Some("1")));
    }
}

/// One client, until the quota is used up or the server is killed. What was answered is counted.
fn hammer(address: std::net::SocketAddr, request: &[u8], answered: &AtomicU64) {
    let mut connection = Connection::open(address);
    while connection.try_send(request) {
        match connection.try_reply().map(|reply| reply.status) {
            Some(200) => drop(answered.fetch_add(1, Ordering::Relaxed)),
            Some(429) | None => return,
            // It is still counted what was used before.
            Some(503) => {}
            Some(status) => panic!("{status}"),
        }
    }
}

#[test]
fn kills_at_any_moment_never_let_a_quota_be_exceeded() {
    const QUOTA: u64 = 600;
    const CLIENTS: u64 = 4;
    const LIVES: u64 = 6;
    let mut site = Site::with_people();
    let token = site.token(&["--quota", &format!("{QUOTA}/month")]);
    let request = Request::lookup(PHONE, profile_body(ADA)).token(&token).bytes();
    let answered = AtomicU64::new(0);
    for life in 0..LIVES {
        let service = site.serve();
        let address = service.public;
        let before = answered.load(Ordering::Relaxed);
        site = std::thread::scope(|scope| {
            for _ in 0..CLIENTS {
                scope.spawn(|| hammer(address, &request, &answered));
            }
            eventually("some are answered", || answered.load(Ordering::Relaxed) >= before + 20 + 13 * life);
            service.kill()
        });
    }
    let service = site.serve();
    let total = answered.load(Ordering::Relaxed) + use_up(&service, &[&token]);
    assert!(total <= QUOTA, "{total}");
    assert!(total >= QUOTA - LIVES * CLIENTS, "{total}: only requests under way may be lost");
}

#[test]
fn after_a_kill_the_rest_of_a_quota_is_exact_also_for_rotated_tokens() {
    let site = Site::with_people();
    let first = site.token(&["--quota", "20/day"]);
    let second = site.ok(&["token", "rotate", "test"]);
    let service = site.serve();
    use_some(&service, &first, 5);
    let service = service.kill().serve();
    use_some(&service, &second, 4);
    let service = service.kill().serve();
    assert_eq!(use_up(&service, &[&first, &second]), 11);
    let service = service.kill().serve();
    assert_eq!(use_up(&service, &[&second]), 0);
    // A stop stores everything, so nothing has to be counted again.
    let service = service.stop().serve();
    assert_eq!(use_up(&service, &[&first]), 0);
    assert!(!service.log.text().contains("counted hits again"), "{}", service.log.text());
}

#[test]
fn a_journal_that_was_moved_aside_takes_no_counted_hit_with_it() {
    let (service, token) = Service::with(&["--quota", "30/month"], "");
    use_some(&service, &token, 10);
    eventually("usage is written down", || service.site.json(&["token", "list"])[0]["hits"] == 10);
    let site = service.kill();
    std::fs::rename(site.data().join("audit"), site.path("moved")).expect("moves");
    let service = site.serve();
    use_some(&service, &token, 8);
    service.has_logged("the audit journal lacks hits that had been counted: it was moved aside or shortened");
    let service = service.kill().serve();
    assert_eq!(use_up(&service, &[&token]), 12);
}

#[test]
fn a_quota_is_exact_after_a_kill_also_without_the_index_and_with_compressed_segments() {
    let site = Site::with_people();
    let token = site.token(&["--quota", "40/month"]);
    let small = "[audit]\nsegment_bytes = 4096\n";
    let service = site.serve_with(&[], small);
    use_some(&service, &token, 30);
    // A server compresses closed segments when it starts.
    let service = service.kill().serve_with(&[], small);
    eventually("a segment is compressed", || {
        let files = std::fs::read_dir(service.data().join("audit")).expect("reads");
        files.flatten().any(|file| file.path().extension().is_some_and(|end| end == "zst"))
    });
    let site = service.kill();
    for file in ["audit-index.db", "audit-index.db-wal", "audit-index.db-shm"] {
        let _ = std::fs::remove_file(site.data().join(file));
    }
    let service = site.serve_with(&[], small);
    assert_eq!(use_up(&service, &[&token]), 10);
}

#[test]
fn tokens_without_a_quota_are_answered_while_it_is_counted_what_others_used_before_a_kill_under_load() {
    const QUOTA: u64 = 100_000;
    const CLIENTS: u64 = 3;
    let site = Site::with_people();
    let limited = site.issue("token", "limited", &["--quota", &format!("{QUOTA}/month")]);
    let free = site.token(&[]);
    let request = |token: &str| Request::lookup(PHONE, profile_body(ADA)).token(token).bytes();
    let (of_limited, of_free) = (AtomicU64::new(0), AtomicU64::new(0));
    let service = site.serve();
    let address = service.public;
    let site = std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| hammer(address, &request(&limited), &of_limited));
            scope.spawn(|| hammer(address, &request(&free), &of_free));
        }
        eventually("many are answered", || of_free.load(Ordering::Relaxed) > 2_000);
        service.kill()
    });
    // So none of them is indexed.
    for file in ["audit-index.db", "audit-index.db-wal", "audit-index.db-shm"] {
        let _ = std::fs::remove_file(site.data().join(file));
    }
    let service = site.serve();
    assert_eq!(service.look_up(PHONE, &free, ADA).status, 200);
    let reply = counted(&service, &limited);
    let left =
        reply.header("ratelimit").and_then(|left| left.strip_prefix("\"quota\";r=")?.split(';').next());
    let used = QUOTA - left.and_then(|left| left.parse::<u64>().ok()).expect("a number");
    let answered = of_limited.load(Ordering::Relaxed) + 1;
    assert!((answered..=answered + CLIENTS).contains(&used), "{used} of {answered}");
}

#[test]
fn a_server_that_is_killed_while_it_counts_leaves_that_to_the_next_one() {
    let site = Site::with_people();
    let limited = site.issue("token", "limited", &["--quota", "40/month"]);
    let free = site.token(&[]);
    let service = site.serve();
    use_some(&service, &limited, 20);
    use_some(&service, &free, 30);
    let mut site = service.kill();
    // Nothing can be counted, and no start waits for it.
    let held = "PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE";
    let mut holder = busy(&site.data(), "audit-index.db", held, 600);
    for _ in 0..2 {
        let service = site.serve();
        use_some(&service, &free, 10);
        let reply = service.look_up(PHONE, &limited, ADA);
        assert_eq!((reply.code().as_str(), reply.header("retry-after")), ("service_unavailable", Some("1")));
        site = service.kill();
    }
    holder.kill().and_then(|()| holder.wait()).expect("ends");
    let service = site.serve();
    assert_eq!(use_up(&service, &[&limited]), 20);
    // What was counted is stored, once.
    let service = service.stop().serve();
    assert_eq!(use_up(&service, &[&limited]), 0);
    assert!(!service.log.text().contains("counted hits again"), "{}", service.log.text());
    let tokens = service.site.list(&["token", "list"]);
    let hits: u64 = tokens.iter().filter_map(|token| token["hits"].as_u64()).sum();
    assert_eq!(hits, 40 + 50);
}

#[test]
fn limits_are_shown_on_every_answer_to_a_limited_token_and_on_no_other() {
    let site = Site::with_people();
    let limited = site.token(&["--scope", "phone", "--rate", "100/s", "--quota", "100/day"]);
    let free = site.token(&[]);
    let service = site.serve();
    let body = profile_body(ADA);
    let requests = [
        (200, Request::lookup(PHONE, &body)),
        (400, Request::lookup(PHONE, "{}")),
        (401, Request::lookup(EMAIL, &body)),
        (404, Request::lookup(PHONE, profile_body(NOBODY))),
        (415, Request::lookup(PHONE, &body).header("Content-Type", "text/plain")),
    ];
    for (status, request) in requests {
        let reply = service.send(&request.clone().token(&limited));
        assert_eq!(reply.status, status);
        assert_eq!(
            reply.header("ratelimit-policy"),
            Some("\"rate\";q=100;w=1, \"quota\";q=100;w=86400"),
            "{status}"
        );
        assert!(reply.header("ratelimit").is_some_and(|left| left.contains("\"quota\";r=9")), "{status}");
        assert_eq!(limits(&service.send(&request.token(&free))), (None, None), "{status}");
    }
}

#[test]
fn default_limits_apply_to_tokens_that_have_none() {
    let site = Site::with_people();
    let (plain, own) = (site.token(&[]), site.token(&["--quota", "7/day"]));
    let service = site.serve_with(&[], "[limits]\nrate = \"5/m\"\nquota = \"3/month\"\n");
    let policy =
        |token: &str| service.look_up(PHONE, token, NOBODY).header("ratelimit-policy").map(str::to_owned);
    let month = policy(&plain).expect("a policy");
    assert!(month.starts_with("\"rate\";q=5;w=60, \"quota\";q=3;w="), "{month}");
    assert_eq!(policy(&own).as_deref(), Some("\"rate\";q=5;w=60, \"quota\";q=7;w=86400"));
}
