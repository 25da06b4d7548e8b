//! Every refusal, with its complete reply.

use std::time::{Duration, Instant};

use crate::fixture::ADA;
use crate::http::{Request, head, profile_body, raw_requests};
use crate::service::{EMAIL, PHONE, Service, Site};

fn refused(status: u16, extra: &str, body: &str) -> String {
    format!(
        "{status}\n{}cache-control: no-store\n{}content-length: {}\ncontent-type: application/json\n{}\n{body}",
        if extra.starts_with("allow") { extra } else { "" },
        if extra.starts_with("connection") { extra } else { "" },
        body.len(),
        if extra.starts_with("allow") || extra.starts_with("connection") { "" } else { extra },
    )
}

/// The whole answer of a service that cannot take a request now.
pub(crate) fn unavailable() -> String {
    let body = "{\"status\":\"service_unavailable\",\
                \"message\":\"The service cannot take this request now; retry after the time in Retry-After.\"}";
    refused(503, "retry-after: 1\n", body)
}

#[test]
fn an_invalid_url_is_refused_with_the_path_and_the_reason() {
    let (service, token) = Service::with_people();
    for path in [PHONE, EMAIL] {
        let reply = service.look_up(path, &token, "https://www.linkedin.com/company/quellcorp");
        let body = format!(
            "{{\"status\":\"invalid_profile_url\",\
             \"message\":\"Invalid profileUrl: https://www.linkedin.com/company/quellcorp on {path} api call.\"}}"
        );
        assert_eq!(reply.shown(), refused(400, "x-invalid-reason: not_person\n", &body));
    }
}

#[test]
fn every_invalid_body_is_answered_with_what_was_submitted_and_the_reason() {
    let (service, token) = Service::with_people();
    let long = format!("https://linkedin.com/in/{}", "é".repeat(2_500));
    let kept: String = long.chars().take(2_048).collect();
    let cases = [
        ("", "(none)", "no_body"),
        ("{", "(none)", "not_json"),
        ("profileUrl=x", "(none)", "not_json"),
        ("[]", "(none)", "not_object"),
        ("null", "(none)", "not_object"),
        ("{}", "(none)", "missing"),
        (r#"{"profileURL":"x"}"#, "(none)", "missing"),
        (r#"{"profileUrl":null}"#, "null", "not_string"),
        (r#"{"profileUrl": 1e+308 }"#, "1e+308", "not_string"),
        (r#"{"profileUrl": [ 1, {"a" : "b c"} ] }"#, r#"[1,{"a":"b c"}]"#, "not_string"),
        (r#"{"profileUrl":"x","profileUrl":"x"}"#, "x", "duplicate"),
        (r#"{"profileUrl":""}"#, "", "empty"),
        (r#"{"profileUrl":"a\"b\\c\u0007\n"}"#, "a\"b\\c\u{7}\n", "control_char"),
        (r#"{"profileUrl":"tel:+14155550100"}"#, "tel:+14155550100", "bad_scheme"),
        (r#"{"profileUrl":"https://user@linkedin.com/in/x"}"#, "https://user@linkedin.com/in/x", "userinfo"),
        (&profile_body(&long), &format!("{kept}…"), "too_long"),
    ];
    for (body, submitted, reason) in cases {
        let reply = service.send(&Request::lookup(PHONE, body).token(&token));
        let expected = serde_json::json!({
            "status": "invalid_profile_url",
            "message": format!("Invalid profileUrl: {submitted} on /api/fetchPhoneNumber api call."),
        });
        assert_eq!((reply.status, reply.header("x-invalid-reason")), (400, Some(reason)), "{body}");
        assert_eq!(reply.json(), expected, "{body}");
    }
    let not_utf8 = service.send(&Request::lookup(PHONE, b"{\"profileUrl\":\"\xFF\"}").token(&token));
    assert_eq!((not_utf8.status, not_utf8.header("x-invalid-reason")), (400, Some("not_json")));
}

#[test]
fn every_cause_of_401_has_one_body() {
    let site = Site::with_people();
    let live = site.token(&[]);
    let phone_only = site.token(&["--scope", "phone"]);
    let ended = site.token(&[]);
    let id = site.json(&["token", "list"])[2]["id"].as_str().expect("an id").to_owned();
    site.ok(&["token", "update", &id, "--expires", "0s"]);
    let revoked = site.token(&[]);
    let id = site.json(&["token", "list"])[3]["id"].as_str().expect("an id").to_owned();
    site.ok(&["token", "revoke", &id]);
    let service = site.serve();
    let other_end = if live.ends_with('x') { 'y' } else { 'x' };
    let never_made = format!("{}{other_end}", &live[..live.len() - 1]);
    let invalid = |why: &str| format!("Bearer error=\"invalid_token\", error_description=\"{why}\"");
    let none = || "Bearer".to_owned();
    let scope = "Bearer error=\"insufficient_scope\", error_description=\"not for this operation\"";
    let cases = [
        (None, none()),
        (Some(String::new()), none()),
        (Some("Bearer".to_owned()), none()),
        (Some("Basic dXNlcjpwYXNz".to_owned()), none()),
        (Some(live.clone()), none()),
        (Some("Bearer x".to_owned()), invalid("unknown")),
        (Some(format!("Bearer {never_made}")), invalid("unknown")),
        (Some(format!("Bearer {ended}")), invalid("expired")),
        (Some(format!("Bearer {revoked}")), invalid("revoked")),
        (Some(format!("Bearer {live} {live}")), invalid("unknown")),
        (Some(format!("Bearer {phone_only}")), scope.to_owned()),
    ];
    let body = "{\"status\":\"no_authorization_found\",\"message\":\"No authorization found.\"}";
    for (authorization, challenge) in cases {
        let request = Request::lookup(EMAIL, profile_body(ADA));
        let request = match &authorization {
            Some(value) => request.header("Authorization", value),
            None => request,
        };
        let expected = refused(401, &format!("www-authenticate: {challenge}\n"), body);
        assert_eq!(service.send(&request).shown(), expected, "{challenge}");
    }
    let twice = Request::lookup(EMAIL, profile_body(ADA)).token(&live).token(&live);
    assert_eq!(service.send(&twice).status, 401);
    for scheme in ["bearer", "BEARER", "bEaReR"] {
        let request = Request::lookup(PHONE, profile_body(ADA))
            .header("Authorization", &format!("{scheme} {phone_only}"));
        assert_eq!(service.send(&request).status, 200);
    }
}

#[test]
fn an_unknown_path_is_404_with_our_own_body_for_every_method() {
    let (service, token) = Service::with_people();
    let body = "{\"status\":\"not_found\",\"message\":\"There is nothing at this path.\"}";
    for (method, path) in [
        ("GET", "//"),
        ("POST", "/api"),
        ("POST", "/api/fetchPhoneNumber/"),
        ("POST", "/API/fetchPhoneNumber"),
        ("DELETE", "/api/fetchphonenumber"),
        ("GET", "/metrics"),
        ("BREW", "/docs/"),
        ("OPTIONS", "*"),
    ] {
        let reply = service.send(&Request::new(method, path).token(&token));
        assert_eq!(reply.shown(), refused(404, "", body), "{method} {path}");
    }
    let reply = service.ask_admin(&Request::lookup(PHONE, profile_body(ADA)).token(&token));
    assert_eq!(reply.shown(), refused(404, "", body), "the operations are not on the admin listener");
}

#[test]
fn a_wrong_method_is_405_and_names_the_allowed_ones() {
    let (service, token) = Service::with_people();
    let body = "{\"status\":\"method_not_allowed\",\
        \"message\":\"This method is not allowed here; the Allow header lists those that are.\"}";
    for method in ["GET", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"] {
        let reply = service.send(&Request::new(method, PHONE).token(&token));
        assert_eq!(reply.shown(), refused(405, "allow: POST\n", body), "{method}");
    }
    let reply = service.send(&Request::new("POST", "/healthz").body(""));
    assert_eq!(reply.shown(), refused(405, "allow: GET, HEAD\n", body));
}

#[test]
fn a_body_of_another_type_is_415() {
    let (service, token) = Service::with_people();
    let body = "{\"status\":\"unsupported_media_type\",\
        \"message\":\"The request body must be JSON (Content-Type: application/json).\"}";
    for kind in
        ["text/plain", "application/x-www-form-urlencoded", "application/xml", "", "application/json-seq"]
    {
        let request =
            Request::lookup(PHONE, profile_body(ADA)).without("Content-Type").header("Content-Type", kind);
        assert_eq!(service.send(&request.token(&token)).shown(), refused(415, "", body), "{kind}");
    }
}

#[test]
fn an_encoded_body_is_415() {
    let (service, token) = Service::with_people();
    let body = "{\"status\":\"unsupported_media_type\",\
        \"message\":\"The request body must not be encoded; send it without Content-Encoding.\"}";
    let with = |coding: &str| {
        service
            .send(&Request::lookup(PHONE, profile_body(ADA)).token(&token).header("Content-Encoding", coding))
    };
    for coding in ["gzip", "BR", "identity, deflate", "x-made-up", "gzip,identity"] {
        let expected =
            format!("415\naccept-encoding: identity\n{}", &refused(415, "", body)["415\n".len()..]);
        assert_eq!(with(coding).shown(), expected, "{coding}");
    }
    for plain in ["identity", "Identity", "identity, identity", ""] {
        assert_eq!(with(plain).status, 200, "{plain:?}");
    }
}

const TOO_LARGE: &str = "{\"status\":\"request_too_large\",\"message\":\"The request body is too large.\"}";

#[test]
fn a_body_at_the_limit_is_read_and_one_over_it_is_413() {
    let (service, token) = Service::with_people();
    let body = profile_body(ADA);
    let padded = |length: usize| body.replacen('{', &format!("{{{}", " ".repeat(length - body.len())), 1);
    let request = |length: usize| Request::lookup(PHONE, padded(length)).token(&token);
    assert_eq!(service.send(&request(16 * 1024)).status, 200);
    assert_eq!(service.send(&request(16 * 1024 + 1)).shown(), refused(413, "connection: close\n", TOO_LARGE));
}

#[test]
fn a_client_that_sends_far_too_much_can_still_read_the_answer() {
    let (service, token) = Service::with_people();
    for chunked in [false, true] {
        let mut connection = service.connect();
        let framing = if chunked { "Transfer-Encoding: chunked" } else { "Content-Length: 10000000" };
        connection.send(head(&token, &format!("{framing}\r\n\r\n")));
        let piece = if chunked { format!("8000\r\n{}\r\n", " ".repeat(0x8000)) } else { " ".repeat(0x8000) };
        for _ in 0..25 {
            if !connection.try_send(&piece) {
                break;
            }
        }
        assert_eq!(
            connection.reply().shown(),
            refused(413, "connection: close\n", TOO_LARGE),
            "chunked: {chunked}"
        );
        assert!(connection.is_closed());
    }
}

#[test]
fn a_body_that_does_not_arrive_in_time_is_408() {
    let (service, token) = Service::with(&[], "[limits]\nbody_timeout = \"1s\"\n");
    let mut connection = service.connect();
    let started = Instant::now();
    connection.send(head(&token, "Content-Length: 100\r\n\r\n{"));
    let reply = connection.reply();
    assert!(started.elapsed() >= Duration::from_millis(900));
    let body = "{\"status\":\"request_timeout\",\"message\":\"The request body did not arrive in time.\"}";
    assert_eq!(reply.shown(), refused(408, "connection: close\n", body));
    assert!(connection.is_closed());
}

#[test]
fn http_that_must_not_be_served_is_400_and_closed() {
    let (service, token) = Service::with_people();
    let body =
        "{\"status\":\"bad_request\",\"message\":\"The request is not valid HTTP/1.1 for this service.\"}";
    for sent in raw_requests(include_str!("requests/refused.jsonl"), &token) {
        let mut connection = service.connect();
        connection.send(&sent);
        assert_eq!(connection.reply().shown(), refused(400, "connection: close\n", body), "{sent:?}");
        assert!(connection.is_closed(), "{sent:?}");
    }
}

#[test]
fn unusual_requests_that_every_parser_reads_the_same_way_are_served() {
    let (service, token) = Service::with_people();
    let body = profile_body(ADA);
    let text = String::from_utf8(Request::lookup(PHONE, &body).token(&token).bytes()).expect("ASCII");
    let chunked = |chunks: &str| head(&token, &format!("Transfer-Encoding: chunked\r\n\r\n{chunks}"));
    let size = body.len();
    for request in [
        format!("\r\n{text}"),
        text.replacen(PHONE, &format!("{PHONE}?a={{[|]}}"), 1),
        text.replacen(PHONE, &format!("http://127.0.0.1{PHONE}"), 1),
        text.replacen("Host: ", "Host:\t", 1),
        text.replacen("Host: 127.0.0.1", "Host: [::1]:8080", 1),
        text.replacen("Host: ", "EXPECT: 100-Continue\r\nHost: ", 1),
        chunked(&format!("{size:04X};a;b=c;d=\"e\\\" f\"\r\n{body}\r\n0;end\r\nX-Sum: 1\r\n\r\n")),
    ] {
        let mut connection = service.connect();
        connection.send(format!("{request}GET /healthz HTTP/1.1\r\nHost: test\r\n\r\n"));
        assert_eq!((connection.reply().status, connection.reply().status), (200, 200), "{request}");
    }
}

#[test]
fn a_head_that_is_too_large_is_431() {
    let (service, _) = Service::with_people();
    let mut connection = service.connect();
    let head = format!("GET / HTTP/1.1\r\nHost: test\r\nX: {}\r\n\r\n", "x".repeat(20_000));
    connection.try_send(head);
    let body = "{\"status\":\"bad_request\",\"message\":\"The request line and headers are too large.\"}";
    assert_eq!(connection.reply().shown(), refused(431, "connection: close\n", body));
}

#[test]
fn an_internal_error_is_500_without_a_status_and_without_a_cause() {
    let (service, token) = Service::with(&[], "[serve]\ntable_bytes = 0\n");
    service.ruin_details();
    let reply = service.look_up(PHONE, &token, ADA);
    assert_eq!(reply.shown(), refused(500, "", "{\"message\":\"Internal server error.\"}"));
    crate::service::eventually("the cause is in the log", || service.log.text().contains("internal error"));
}
