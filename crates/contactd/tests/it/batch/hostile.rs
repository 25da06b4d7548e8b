//! Batches that nobody should send: each has its documented answer, and memory stays bounded.

use std::io::Write;
use std::time::{Duration, Instant};

use super::{BATCH, batch, phone, results, statuses};
use crate::fixture::{ADA, NOBODY};
use crate::http::Request;
use crate::service::{PHONE, Service, eventually};

/// The body of a batch, as it is written here.
fn raw(token: &str, body: impl AsRef<[u8]>) -> Request {
    Request::lookup(BATCH, body).token(token)
}

fn memory(service: &Service) -> u64 {
    service.metric("process_resident_memory_bytes").expect("a metric")
}

#[test]
fn wrong_types_at_every_place_are_refused_with_their_place() {
    let (service, token) = Service::with_people();
    let values = ["null", "true", "7", "1e400", "\"x\"", "[]", "{}", "[[{}]]"];
    let refused = |body: &str, message: &str| {
        let reply = service.send(&raw(&token, body));
        assert_eq!((reply.status, reply.code().as_str()), (400, "invalid_batch"), "{body}");
        let told = reply.json()["message"].as_str().expect("a message").to_owned();
        assert!(
            told.starts_with(message) || told.starts_with("The body cannot be read as JSON"),
            "{body}: {told}"
        );
    };
    let good = phone(ADA).to_string();
    for value in values {
        if value != "{}" {
            refused(value, "The body is not an object");
        }
        if value != "[]" && value != "[[{}]]" {
            refused(&format!("{{\"lookups\":{value}}}"), "lookups is not a list");
        }
        if value != "{}" {
            refused(&format!("{{\"lookups\":[{good},{value}]}}"), "lookups[1] is not an object");
        }
        refused(&format!("{{\"lookups\":[{{\"operation\":{value}}}]}}"), "lookups[0] has no operation");
        if value != "\"x\"" {
            let lookup = format!("{{\"operation\":\"fetchPhoneNumber\",\"reference\":{value}}}");
            refused(&format!("{{\"lookups\":[{good},{good},{lookup}]}}"), "lookups[2] has a reference");
        }
        let lookup = format!("{{\"operation\":\"fetchPhoneNumber\",\"profileUrl\":{value}}}");
        let reply = service.send(&raw(&token, format!("{{\"lookups\":[{lookup},{good}]}}")));
        if value != "1e400" || reply.status == 200 {
            assert_eq!(statuses(&results(&reply)), [400, 200], "{value}");
        }
    }
    for name in ["lookups", "operation", "reference"] {
        let body = match name {
            "lookups" => format!("{{\"lookups\":[{good}],\"lookups\":[{good}]}}"),
            _ => format!(
                "{{\"lookups\":[{}]}}",
                good.replace('}', &format!(",\"{name}\":\"a\",\"{name}\":\"a\"}}"))
            ),
        };
        let reply = service.send(&raw(&token, body));
        assert_eq!(reply.code(), "invalid_batch", "{name} twice");
    }
    assert!(!service.metrics().contains("contactd_audit_lost_total 1"));
}

#[test]
fn one_lookup_too_many_deep_nesting_and_ten_megabytes_are_refused_and_take_no_memory() {
    let (service, token) = Service::with_people();
    let lookups: Vec<_> = (0..101).map(|_| phone(NOBODY)).collect();
    service.send(&batch(&token, &lookups)).refuses(
        400,
        "invalid_batch",
        "lookups has more than 100 lookups; send them in several batches.",
    );
    assert_eq!(results(&service.send(&batch(&token, &lookups[1..]))).len(), 100);
    let before = memory(&service);
    for (open, close) in [("[", "]"), ("{\"a\":", "}"), ("{\"lookups\":[", "]}"), ("[{\"profileUrl\":", "}]")]
    {
        let times = 200_000 / (open.len() + close.len());
        let deep = format!("{}1{}", open.repeat(times), close.repeat(times));
        for body in [deep.clone(), format!("{{\"lookups\":{deep}}}"), format!("{{\"lookups\":[{deep}]}}")] {
            assert_eq!(service.send(&raw(&token, body)).code(), "invalid_batch");
        }
        let ignored = format!("{{\"x\":{deep},\"lookups\":[{}]}}", phone(ADA));
        let status = service.send(&raw(&token, ignored)).status;
        assert!(status == 200 || status == 400, "{status}");
    }
    // By its declared length, also if nothing of it comes; and in chunks, when there is too much.
    let head = format!("POST {BATCH} HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {token}\r\n");
    let mut declared = service.connect();
    declared.send(format!("{head}Content-Length: 10485760\r\n\r\n"));
    assert_eq!(declared.reply().code(), "request_too_large");
    for _ in 0..20 {
        let mut chunked = service.connect();
        chunked.send(format!("{head}Transfer-Encoding: chunked\r\n\r\n"));
        for _ in 0..160 {
            if !chunked.try_send(format!("10000\r\n{}\r\n", " ".repeat(0x10000))) {
                break;
            }
        }
        assert_eq!(chunked.try_reply().expect("a reply").code(), "request_too_large");
    }
    let grown = memory(&service).saturating_sub(before);
    assert!(grown < 16 << 20, "{grown} bytes more");
    assert_eq!(service.look_up(PHONE, &token, ADA).status, 200);
}

#[test]
fn a_batch_of_which_one_lookup_comes_slowly_is_answered_408_and_holds_nobody_up() {
    let (service, token) = Service::with(&[], "[limits]\nbody_timeout = \"1s\"\n");
    let lookups: Vec<_> = (0..100).map(|_| phone(ADA)).collect();
    let bytes = batch(&token, &lookups).bytes();
    let (begun, last) = bytes.split_at(bytes.len() - 20);
    let mut slow: Vec<_> = (0..30).map(|_| service.connect()).collect();
    slow.iter_mut().for_each(|connection| connection.send(begun));
    for _ in 0..20 {
        assert_eq!(service.look_up(PHONE, &token, ADA).status, 200);
    }
    slow[0].send(last);
    assert_eq!(results(&slow[0].reply()).len(), 100);
    let reply = slow[1].reply();
    assert_eq!((reply.status, reply.code().as_str()), (408, "request_timeout"));
}

#[test]
fn clients_that_never_read_their_answers_are_closed_and_take_no_memory() {
    let (service, token) = Service::with(&[], "[limits]\nidle_timeout = \"2s\"\n");
    // The longest answers: what was submitted is repeated.
    let lookups: Vec<_> = (0..100).map(|n| phone(&format!("{n}{}", "x".repeat(2_000)))).collect();
    let bytes = batch(&token, &lookups).bytes();
    assert_eq!(results(&service.connect().ask(&batch(&token, &lookups))).len(), 100);
    let before = memory(&service);
    let mut connections: Vec<_> = (0..40).map(|_| service.connect()).collect();
    let until = Instant::now() + Duration::from_secs(60);
    for connection in &mut connections {
        connection.stream.set_write_timeout(Some(Duration::from_millis(100))).expect("sets");
        // Until the buffers of the kernel are full, in both directions.
        while connection.stream.write_all(&bytes).is_ok() {
            assert!(Instant::now() < until, "the server reads without end");
        }
        assert_eq!(service.look_up(PHONE, &token, ADA).status, 200);
    }
    let grown = memory(&service).saturating_sub(before);
    assert!(grown < 80 << 20, "{grown} bytes more for 40 connections");
    eventually("they are closed", || {
        service.metrics().contains("\ncontactd_connections 1\n")
            || service.metrics().contains("\ncontactd_connections 0\n")
    });
}
