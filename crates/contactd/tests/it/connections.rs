//! Slow, numerous and unusual connections.

use std::time::{Duration, Instant};

use crate::fixture::ADA;
use crate::http::{Request, head, profile_body};
use crate::service::{PHONE, Service, Site};

const IMPATIENT: &str = "[limits]\nhead_timeout = \"1s\"\nidle_timeout = \"2s\"\n";

/// Fails unless the connection is closed in about this many seconds.
fn closes_after(connection: &mut crate::http::Connection, seconds: f64) {
    let started = Instant::now();
    assert!(connection.is_closed());
    let took = started.elapsed().as_secs_f64();
    assert!(took > seconds - 0.3 && took < seconds + 1.5, "closed after {took} s, not {seconds}");
}

#[test]
fn a_silent_connection_is_closed() {
    let service = Site::empty().serve_with(&[], IMPATIENT);
    closes_after(&mut service.connect(), 1.0);
}

#[test]
fn a_head_that_trickles_in_is_cut_off_from_the_opening_of_the_connection() {
    let service = Site::empty().serve_with(&[], IMPATIENT);
    let mut connection = service.connect();
    let started = Instant::now();
    for byte in "GET /healthz HTTP/1.1\r\nHost: test\r\nX-Slow: 1\r\n".chars().cycle() {
        if started.elapsed() > Duration::from_secs(4) || !connection.try_send([byte as u8]) {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let took = started.elapsed().as_secs_f64();
    assert!((0.8..3.0).contains(&took), "cut off after {took} s");
}

#[test]
fn an_idle_connection_has_a_longer_timeout_and_a_later_head_has_its_own() {
    let service = Site::empty().serve_with(&[], IMPATIENT);
    let mut idle = service.connect();
    assert_eq!(idle.ask(&Request::get("/healthz")).status, 200);
    std::thread::sleep(Duration::from_millis(1_400));
    assert_eq!(idle.ask(&Request::get("/healthz")).status, 200, "idle for longer than a head may take");
    closes_after(&mut idle, 2.0);

    let mut second = service.connect();
    assert_eq!(second.ask(&Request::get("/healthz")).status, 200);
    second.send("GET /healthz HT");
    closes_after(&mut second, 1.0);
}

#[test]
fn pipelined_requests_can_be_split_anywhere() {
    let (service, token) = Service::with_people();
    let body = format!("{{\n \"profileUrl\":\n \"{ADA}\"\n}}\n");
    let request = Request::lookup(PHONE, &body).token(&token).bytes();
    let both = [request.clone(), request.clone()].concat();
    for cut in (1..both.len()).step_by(3).chain(request.len()..request.len() + 30) {
        let mut connection = service.connect();
        connection.send(&both[..cut]);
        // Usually long enough for the server to read the first piece separately.
        std::thread::sleep(Duration::from_millis(2));
        connection.send(&both[cut..]);
        for number in 1..=2 {
            let reply = connection.reply();
            assert_eq!(reply.status, 200, "request {number}, cut at {cut}: {}", reply.shown());
        }
    }
}

#[test]
fn the_same_rules_apply_to_pipelined_requests() {
    let (service, token) = Service::with_people();
    let request = Request::lookup(PHONE, profile_body(ADA)).token(&token).bytes();
    let mut connection = service.connect();
    connection.send([&request[..], b"GET /healthz HTTP/1.1\nHost: test\n\n", &request].concat());
    let statuses: Vec<u16> = (0..2).map(|_| connection.reply().status).collect();
    assert_eq!(statuses, [200, 400]);
    assert!(connection.is_closed());

    let impatient = Site::empty().serve_with(&[], IMPATIENT);
    let mut slow = impatient.connect();
    slow.send([&Request::get("/healthz").bytes()[..], b"GET /healthz HT"].concat());
    assert_eq!(slow.reply().status, 200);
    closes_after(&mut slow, 1.0);
}

#[test]
fn chunks_are_read_wherever_they_are_split_and_the_next_request_is_found_after_them() {
    let (service, token) = Service::with_people();
    let body = profile_body(ADA);
    let (first, second) = body.split_at(7);
    let head = head(&token, "Transfer-Encoding: chunked\r\n\r\n");
    let chunks = format!(
        "{:x}\r\n{first}\r\n{:X};a=b\r\n{second}\r\n0\r\nX-Trailer: 1\r\n\r\n",
        first.len(),
        second.len()
    );
    let both = format!("{head}{chunks}GET /healthz HTTP/1.1\r\nHost: test\r\n\r\n");
    for cut in (0..both.len()).step_by(3) {
        let mut connection = service.connect();
        connection.send(&both[..cut]);
        std::thread::sleep(Duration::from_millis(2));
        connection.send(&both[cut..]);
        let statuses: Vec<u16> = (0..2).map(|_| connection.reply().status).collect();
        assert_eq!(statuses, [200, 200], "cut at {cut}");
    }
}

#[test]
fn a_refused_request_does_not_close_the_connection_if_its_body_has_arrived() {
    let (service, token) = Service::with_people();
    let mut connection = service.connect();
    for (status, request) in [
        (401, Request::lookup(PHONE, profile_body(ADA))),
        (404, Request::lookup("/nowhere", profile_body(ADA))),
        (415, Request::lookup(PHONE, profile_body(ADA)).header("Content-Type", "a/b").token(&token)),
        (200, Request::lookup(PHONE, profile_body(ADA)).token(&token)),
    ] {
        let reply = connection.ask(&request);
        assert_eq!((reply.status, reply.header("connection")), (status, None));
    }
}

#[test]
fn a_refused_request_does_not_close_the_connection_if_its_body_arrives_later() {
    let (service, token) = Service::with_people();
    let mut connection = service.connect();
    for (status, request) in [
        (401, Request::lookup(PHONE, profile_body(ADA))),
        (404, Request::lookup("/nowhere", profile_body(ADA))),
        (415, Request::lookup(PHONE, profile_body(ADA)).header("Content-Type", "a/b").token(&token)),
    ] {
        let bytes = request.bytes();
        let (head, body) = bytes.split_at(bytes.len() - 10);
        connection.send(head);
        let reply = connection.reply();
        assert_eq!((reply.status, reply.header("connection")), (status, None));
        connection.send(body);
    }
    assert_eq!(connection.ask(&Request::get("/healthz")).status, 200);
}

#[test]
fn the_last_answer_arrives_whatever_the_client_sent_after_its_request() {
    let (service, _) = Service::with_people();
    let page = Request::get("/openapi.json").bytes();
    let last = Request::get("/openapi.json").header("Connection", "close").bytes();
    let behind = Request::get("/healthz").bytes().repeat(3_000);
    let mut connection = service.connect();
    connection.try_send([page.repeat(3), last, behind].concat());
    std::thread::sleep(Duration::from_millis(300));
    for number in 1..=4 {
        assert_eq!(connection.reply().status, 200, "answer {number}");
    }
    assert!(connection.is_closed());
}

#[test]
fn a_client_that_has_finished_sending_is_still_answered() {
    let (service, token) = Service::with_people();
    let mut connection = service.connect();
    connection.send(Request::lookup(PHONE, profile_body(ADA)).token(&token).bytes());
    connection.finish_sending();
    assert_eq!(connection.reply().status, 200);
}

#[test]
fn a_client_that_waits_for_100_continue_gets_it_only_if_its_body_is_wanted() {
    let (service, token) = Service::with_people();
    let body = profile_body(ADA);
    let rest = format!("Expect: 100-continue\r\nContent-Length: {}\r\n\r\n", body.len());
    let mut wanted = service.connect();
    wanted.send(head(&token, &rest));
    assert_eq!(wanted.reply().status, 100);
    wanted.send(&body);
    assert_eq!(wanted.reply().status, 200);
    let mut unwanted = service.connect();
    unwanted.send(head("nobody", &rest));
    let reply = unwanted.reply();
    assert_eq!((reply.status, reply.header("connection")), (401, Some("close")));
}

#[test]
fn http_1_0_is_served_without_a_host_and_closed() {
    let (service, token) = Service::with_people();
    let body = profile_body(ADA);
    let mut connection = service.connect();
    connection.send(format!(
        "POST {PHONE} HTTP/1.0\r\nAuthorization: Bearer {token}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ));
    assert_eq!(connection.reply().status, 200);
    assert!(connection.is_closed());
    let mut kept = service.connect();
    for _ in 0..2 {
        kept.send("GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
        let reply = kept.reply();
        assert_eq!((reply.status, reply.header("connection")), (200, Some("keep-alive")));
    }
}
