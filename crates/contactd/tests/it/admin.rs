//! The operator's listener: metrics, who may ask for them, and that it holds nobody up.

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::fixture::ADA;
use crate::http::{Connection, Request};
use crate::service::{PHONE, Service, Site};

fn ask(service: &Service, request: &str) -> crate::http::Reply {
    let mut connection = Connection::open(service.admin);
    connection.send(request);
    connection.reply()
}

#[test]
fn it_answers_addresses_loopback_names_and_configured_names_and_no_others() {
    let service = Site::empty().serve_with(&[], "[admin]\nhosts = [\"Metrics.internal.example\"]\n");
    let get = |host: &str| ask(&service, &format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    for host in ["127.0.0.1", "[::1]:8081", "localhost:1", "a.localhost", "metrics.internal.example:8081"] {
        assert_eq!(get(host).status, 200, "{host}");
    }
    for host in ["rebind.example", "localhost.rebind.example", "127.0.0.1.rebind.example:8081"] {
        let reply = get(host);
        assert_eq!((reply.status, reply.code().as_str()), (421, "misdirected_request"), "{host}");
        assert!(!reply.body.contains("contactd_"), "{}", reply.body);
    }
    let absolute = "GET http://rebind.example/metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
    assert_eq!(ask(&service, absolute).status, 421);
    let without = ask(&service, "GET /metrics HTTP/1.1\r\n\r\n");
    assert_eq!((without.status, without.code().as_str()), (400, "bad_request"));
    let twice = ask(&service, "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(twice.status, 400);
}

#[test]
fn its_answers_have_our_shape_and_a_request_id() {
    let service = Site::empty().serve();
    let reply = ask(
        &service,
        "POST /metrics HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: a-1\r\nContent-Length: 0\r\n\r\n",
    );
    assert_eq!((reply.status, reply.code().as_str()), (405, "method_not_allowed"));
    assert_eq!((reply.header("allow"), reply.header("x-request-id")), (Some("GET,HEAD"), Some("a-1")));
    let reply = ask(&service, "GET /nothing HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: a b\r\n\r\n");
    assert_eq!((reply.status, reply.code().as_str()), (404, "not_found"));
    let id = reply.header("x-request-id").expect("an id");
    assert_eq!((id.len(), id.as_bytes()[14]), (36, b'7'), "a new one, not the one with a space: {id}");
}

#[test]
fn an_address_that_other_machines_can_reach_has_to_be_configured() {
    let site = Site::empty();
    let config = site.file("remote.toml", "[admin]\nallow_remote = true\n");
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:8081"] {
        site.run(&["serve", "--listen", "127.0.0.1:0", "--admin-listen", address])
            .mentions(2, "allow_remote = true");
    }
    let mut command = site.command();
    command.args(["serve", "--listen", "127.0.0.1:0", "--admin-listen", "0.0.0.0:0", "--config", &config]);
    let mut child = command.stderr(Stdio::piped()).spawn().expect("starts");
    let words = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    let is_served =
        words.map_while(Result::ok).any(|line| line.contains("\"message\":\"admin on http://0.0.0.0:"));
    child.kill().expect("is killed");
    child.wait().expect("ends");
    assert!(is_served);
}

#[test]
fn slow_and_greedy_clients_of_it_delay_no_lookup() {
    let (service, token) = Service::with_people();
    // More connections than it takes, each with a request that never ends, and some that never read their answers.
    let mut held = Vec::new();
    let greedy = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(2_000);
    for number in 0..100 {
        let Ok(stream) = TcpStream::connect_timeout(&service.admin, Duration::from_secs(5)) else { break };
        stream.set_nonblocking(true).expect("sets");
        let bytes: &[u8] = if number % 10 > 0 { b"GET /metrics HTTP/1.1\r\nHost: x" } else { &greedy };
        let _ = std::io::Write::write(&mut &stream, bytes);
        held.push(stream);
    }
    assert!(held.len() > 64, "{} connections", held.len());
    let mut connection = service.connect();
    let lookup = Request::lookup(PHONE, crate::http::profile_body(ADA)).token(&token);
    let times = (0..500).map(|_| {
        let began = Instant::now();
        assert_eq!(connection.ask(&lookup).status, 200);
        began.elapsed()
    });
    // One that waited for a client of the admin listener would wait for its time limit of five seconds.
    let slowest = times.max().expect("lookups");
    assert!(slowest < Duration::from_secs(4), "none waited for a time-out: {slowest:?}");
    // Those who do not read are given up on, and those who do not finish their request.
    crate::service::eventually("it answers again", || {
        let mut connection = Connection::open(service.admin);
        connection.try_send(Request::get("/metrics").bytes());
        connection.try_reply().is_some_and(|reply| reply.status == 200)
    });
    drop(held);
}
