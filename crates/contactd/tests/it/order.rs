//! The order of the checks: a request with two faults gets the answer for the one that is checked first.

use crate::http::Request;
use crate::service::{PHONE, Service, Site};

/// Sends requests with fewer and fewer faults, and checks the status of each.
#[test]
fn path_then_method_then_size_then_token_then_limits_then_type_then_body() {
    let site = Site::with_people();
    let good = site.token(&["--rate", "1000/s"]);
    let used_up = site.token(&["--quota", "0/day"]);
    let service = site.serve();
    let send = |request: Request| service.send(&request).status;

    let huge = |method: &str, path: &str| {
        Request::new(method, path).header("Content-Type", "text/plain").header("Content-Length", "99999")
    };
    assert_eq!(send(huge("GET", "/nowhere")), 404);
    assert_eq!(send(huge("GET", PHONE)), 405);
    assert_eq!(send(huge("POST", PHONE)), 413);
    let text =
        |token: &str| Request::new("POST", PHONE).header("Content-Type", "text/plain").token(token).body("{");
    assert_eq!(send(text("nobody")), 401);
    assert_eq!(send(text(&used_up)), 429);
    assert_eq!(send(text(&good)), 415);
    let encoded = |token: &str| text(token).without("Content-Type").header("Content-Encoding", "gzip");
    assert_eq!(send(encoded("nobody")), 401);
    assert_eq!(send(encoded(&used_up)), 429);
    assert_eq!(send(encoded(&good)), 415);
    let broken = text(&good).without("Content-Type");
    assert_eq!(send(broken), 400);
}

#[test]
fn an_unauthorised_caller_learns_nothing_about_its_body() {
    let (service, _) = Service::with_people();
    for body in [
        "",
        "{",
        r#"{"profileUrl":"https://linkedin.com/company/x"}"#,
        r#"{"profileUrl":"https://linkedin.com/in/ada-quell-1a2b3c"}"#,
    ] {
        let reply = service.send(&Request::lookup(PHONE, body));
        assert_eq!((reply.status, reply.header("x-invalid-reason")), (401, None));
    }
}
