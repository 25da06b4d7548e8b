//! Web pages of other origins, as their browsers ask and as the service answers.

use crate::audit::Faulty;
use crate::fixture::{ADA, NOBODY};
use crate::http::{Reply, Request, profile_body};
use crate::service::{EMAIL, PHONE, Service, Site};
use crate::transcript::{check, transcripts};

const PAGE: &str = "https://app.example.com";
const CONFIG: &str = "[cors]\nallow_origins = [\"https://app.example.com\", \"http://localhost:3000\"]\n";

fn preflight(path: &str, origin: &str) -> Request {
    Request::new("OPTIONS", path)
        .header("Origin", origin)
        .header("Access-Control-Request-Method", "POST")
        .header("Access-Control-Request-Headers", "authorization,content-type")
}

/// The headers that a browser looks at.
fn cors_headers(reply: &Reply) -> Vec<(&str, &str)> {
    let all = reply.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let is_of_cors = |&(name, value): &(&str, &str)| {
        name.starts_with("access-control") || (name == "vary" && value != "Accept-Encoding")
    };
    all.filter(is_of_cors).collect()
}

fn on_every_answer(origin: &str) -> Vec<(&str, &str)> {
    vec![
        ("access-control-allow-origin", origin),
        (
            "access-control-expose-headers",
            "X-Invalid-Reason, X-Request-Id, Retry-After, RateLimit, RateLimit-Policy, WWW-Authenticate, \
             X-Contactd-Sandbox",
        ),
        ("vary", "Origin"),
    ]
}

#[test]
fn a_preflight_from_a_listed_origin_is_204_on_every_public_path() {
    let (service, _) = Service::with(&[], CONFIG);
    for (path, methods) in [
        (PHONE, "POST"),
        (EMAIL, "POST"),
        ("/", "GET, HEAD"),
        ("/healthz", "GET, HEAD"),
        ("/readyz", "GET, HEAD"),
        ("/openapi.json", "GET, HEAD"),
        ("/openapi.yaml", "GET, HEAD"),
        ("/docs", "GET, HEAD"),
    ] {
        for origin in [PAGE, "http://localhost:3000"] {
            let expected = format!(
                "204\naccess-control-allow-headers: authorization, content-type, x-request-id\n\
                 access-control-allow-methods: {methods}\naccess-control-allow-origin: {origin}\n\
                 access-control-max-age: 7200\nvary: Origin\n\n"
            );
            assert_eq!(service.send(&preflight(path, origin)).shown(), expected, "{path}");
        }
    }
    let unknown = service.send(&preflight("/nowhere", PAGE));
    assert_eq!((unknown.status, unknown.code().as_str()), (404, "not_found"));
    assert!(service.metrics().contains("{operation=\"phone\",outcome=\"ok\"} 0"), "it is no lookup");
}

#[test]
fn a_connection_goes_on_after_a_preflight() {
    let (service, token) = Service::with(&[], CONFIG);
    let mut connection = service.connect();
    for _ in 0..2 {
        assert_eq!(connection.ask(&preflight(PHONE, PAGE)).status, 204);
        let lookup = Request::lookup(PHONE, profile_body(ADA)).token(&token).header("Origin", PAGE);
        assert_eq!(connection.ask(&lookup).status, 200);
    }
}

#[test]
fn what_is_not_a_preflight_from_a_listed_origin_is_405_as_before() {
    let (service, _) = Service::with(&[], CONFIG);
    let before = service.send(&Request::new("OPTIONS", PHONE)).shown();
    assert!(before.starts_with("405\nallow: POST\n"), "{before}");
    for origin in
        ["https://evil.example.com", "https://app.example.com.evil.example", "null", "http://app.example.com"]
    {
        assert_eq!(service.send(&preflight(PHONE, origin)).shown(), before, "{origin}");
    }
    let twice = preflight(PHONE, PAGE).header("Origin", PAGE);
    assert_eq!(service.send(&twice).shown(), before, "two origins");
    let without_origin = preflight(PHONE, PAGE).without("Origin");
    assert_eq!(service.send(&without_origin).shown(), before);
    let no_preflight = service.send(&preflight(PHONE, PAGE).without("Access-Control-Request-Method"));
    assert_eq!((no_preflight.status, cors_headers(&no_preflight)), (405, on_every_answer(PAGE)));
}

#[test]
fn a_listed_page_can_read_every_answer() {
    let site = Site::with_people();
    let token = site.token(&[]);
    let used_up = site.token(&["--quota", "0/day"]);
    let service = site.serve_with(&[], CONFIG);
    let lookup = |token: &str, url: &str| Request::lookup(PHONE, profile_body(url)).token(token);
    for (status, request) in [
        (200, lookup(&token, ADA)),
        (400, lookup(&token, "x")),
        (400, lookup(&token, ADA).without("Host")),
        (401, lookup("nobody", ADA)),
        (404, lookup(&token, NOBODY)),
        (404, Request::get("/nowhere")),
        (405, Request::get(PHONE)),
        (413, lookup(&token, ADA).without("Content-Length").header("Content-Length", "99999")),
        (415, lookup(&token, ADA).header("Content-Encoding", "gzip")),
        (429, lookup(&used_up, ADA)),
        (200, Request::get("/openapi.json")),
        (200, Request::get("/healthz")),
        (307, Request::get("/")),
    ] {
        let reply = service.send(&request.clone().header("Origin", PAGE));
        assert_eq!((reply.status, cors_headers(&reply)), (status, on_every_answer(PAGE)));
        for origin in ["https://evil.example.com", "null"] {
            let reply = service.send(&request.clone().header("Origin", origin));
            assert_eq!((reply.status, cors_headers(&reply)), (status, vec![]), "{origin}");
        }
        let reply = service.send(&request);
        assert_eq!((reply.status, cors_headers(&reply)), (status, vec![]), "no origin");
    }
    // 500: nothing was read before.
    let (service, token) = Service::with(&[], &format!("{CONFIG}[serve]\ntable_bytes = 0\n"));
    service.ruin_details();
    let reply = service.send(&lookup(&token, ADA).header("Origin", PAGE));
    assert_eq!((reply.status, cors_headers(&reply)), (500, on_every_answer(PAGE)));
}

#[test]
fn a_listed_page_can_read_that_the_service_is_overloaded() {
    let faulty = Faulty::start_with("os", &format!("{CONFIG}[limits]\nin_flight = 1\n"));
    let service = &faulty.service;
    let lookup = Request::lookup(PHONE, profile_body(ADA)).token(&faulty.token).header("Origin", PAGE);
    // Its line is not written, so it stays in flight.
    faulty.fail("hang");
    let mut waiting = service.connect();
    waiting.send(lookup.bytes());
    crate::service::eventually("it is in flight", || {
        service.metrics().contains("\ncontactd_requests_in_flight 1\n")
    });
    let reply = service.send(&lookup);
    faulty.fail("ok");
    assert_eq!((reply.status, reply.header("retry-after")), (503, Some("1")));
    assert_eq!(cors_headers(&reply), on_every_answer(PAGE));
}

#[test]
fn without_a_list_no_page_may_call() {
    let (service, token) = Service::with_people();
    assert_eq!(
        service.send(&preflight(PHONE, PAGE)).shown(),
        service.send(&Request::new("OPTIONS", PHONE)).shown()
    );
    let reply = service.send(&Request::lookup(PHONE, profile_body(ADA)).token(&token).header("Origin", PAGE));
    assert_eq!((reply.status, cors_headers(&reply)), (200, vec![]));
}

transcripts! {
    fn an_origin_that_no_browser_sends_is_refused_at_start_with_the_line_of_the_list() { check(&Site::empty(), "cors") }
}
