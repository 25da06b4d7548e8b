//! Bodies that nobody should send: each has an answer of the protocol, and memory stays bounded.

use serde_json::json;

use super::{AGENT, MODERN, call, modern, raw, structured};
use crate::fixture::ADA;
use crate::service::Service;

#[test]
fn hostile_bodies_have_answers_and_the_service_goes_on() {
    let (service, token) = Service::with(&AGENT, "");
    let deep = |open: &str, close: &str| format!("{}{}", open.repeat(3_000), close.repeat(3_000));
    let bodies = [
        "\u{0}".to_owned(),
        "\"".repeat(16_000),
        "{\"jsonrpc\":\"2.0\",\"id\":\"\\ud800\",\"method\":\"tools/list\"}".to_owned(),
        format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"tools/list\"}}", "9".repeat(15_000)),
        format!("{{\"jsonrpc\":\"2.0\",\"id\":\"{}\",\"method\":\"tools/list\"}}", "x".repeat(15_000)),
        deep("[", "]"),
        deep("{\"a\":", ""),
        format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{}}}", deep("[", "]")),
        format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{{\"name\":\"check_profile_url\",\"arguments\":\
             {{\"profileUrl\":{}}}}}}}",
            deep("[", "]")
        ),
        "{\"jsonrpc\":\"2.0\",\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}".to_owned(),
    ];
    for body in &bodies {
        for version in [None, Some(MODERN), Some("2025-11-25"), Some("x\u{e9}")] {
            let sent = raw(&token, body).header("Mcp-Method", "tools/list");
            let sent =
                version.iter().fold(sent, |sent, version| sent.header("MCP-Protocol-Version", version));
            let reply = service.send(&sent);
            assert!([200, 400, 404].contains(&reply.status), "{}: {reply:?}", &body[..body.len().min(99)]);
            assert!(reply.body.contains("\"jsonrpc\":\"2.0\""), "{reply:?}");
        }
    }
    let large = raw(&token, " ".repeat(17 * 1024));
    let reply = service.send(&large);
    assert_eq!(
        (reply.status, &reply.json()["error"]["data"]),
        (413, &json!({ "error_code": "request_too_large" }))
    );
    let not_utf8 = raw(&token, b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xFF\"}");
    assert_eq!(service.send(&not_utf8).json()["error"]["code"], -32700);
    assert_eq!(structured(&service.send(&call(&token, "fetch_phone_number", ADA)))["found"], true);
    assert_eq!(service.metric("contactd_requests_total{operation=\"mcp\",outcome=\"internal_error\"}"), None);
}

#[test]
fn what_is_no_message_takes_one_of_the_rate_and_the_rest_of_the_protocol_none() {
    let (service, token) = Service::with(
        &["--scope", "mcp", "--scope", "phone", "--quota", "9/day", "--rate", "1/h", "--burst", "2"],
        "",
    );
    for method in ["server/discover", "tools/list", "prompts/list"].repeat(3) {
        assert!(service.send(&modern(&token, method, &json!({}))).status < 429, "{method}");
    }
    assert_eq!(service.send(&raw(&token, "{")).status, 400);
    assert_eq!(service.send(&modern(&token, "tools/call", &json!({ "name": "x" }))).status, 400);
    let reply = service.send(&raw(&token, "{"));
    assert_eq!((reply.status, &reply.json()["error"]["data"]["error_code"]), (429, &json!("rate_limited")));
    assert!(reply.header("retry-after").is_some());
}
