//! Rates and quotas.

use crate::fixture::{ADA, NOBODY};
use crate::http::{Reply, Request, profile_body};
use crate::service::{EMAIL, PHONE, Site};

fn limits(reply: &Reply) -> (Option<&str>, Option<&str>) {
    (reply.header("ratelimit-policy"), reply.header("ratelimit"))
}

#[test]
fn a_rate_allows_its_burst_and_then_says_when_to_retry() {
    let site = Site::with_people();
    let token = site.token(&["--rate", "2/h", "--burst", "3"]);
    let service = site.serve();
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
    let site = Site::with_people();
    let token = site.token(&["--quota", "2/month"]);
    let service = site.serve();
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

#[test]
fn a_quota_survives_a_restart_and_a_kill() {
    let site = Site::with_people();
    let token = site.token(&["--quota", "3/day"]);
    let service = site.serve();
    assert_eq!(service.look_up(PHONE, &token, ADA).status, 200);
    let service = service.stop().serve();
    assert_eq!(service.look_up(PHONE, &token, ADA).status, 200);
    crate::service::eventually("usage is written down", || {
        service.site.run(&["token", "list", "--json"]).json()[0]["hits"] == 2
    });
    service.signal(rustix::process::Signal::KILL);
    let mut service = service;
    service.wait();
    let data = service.data();
    let again = Site::empty();
    std::fs::rename(&data, again.data()).expect("moves");
    let service = again.serve();
    assert_eq!(service.look_up(PHONE, &token, ADA).status, 200);
    assert_eq!(service.look_up(PHONE, &token, ADA).status, 429);
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
