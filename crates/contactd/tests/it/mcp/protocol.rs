//! What the protocol demands of every message, in both versions.

use serde_json::{Value, json};

use super::{
    AGENT, LEGACY, MCP, MODERN, call, legacy, lines, message, meta, modern, raw, result, structured,
};
use crate::fixture::ADA;
use crate::http::{Reply, Request};
use crate::service::{Service, Site};

const PAGE: &str = "https://app.example.com";

/// Fails unless it is this error, for this request. Gives the message.
#[track_caller]
fn fails(reply: &Reply, status: u16, code: i64, id: &Value) -> String {
    let answer = reply.json();
    let found = (reply.status, &answer["error"]["code"], &answer["id"], &answer["jsonrpc"]);
    assert_eq!(found, (status, &json!(code), id, &json!("2.0")), "{reply:?}");
    assert_eq!(reply.header("content-type"), Some("application/json"));
    answer["error"]["message"].as_str().expect("a message").to_owned()
}

#[test]
fn an_older_client_shakes_hands_and_nothing_is_kept_of_it() {
    let (service, token) = Service::with(&AGENT, "");
    let hello = json!({ "protocolVersion": LEGACY, "capabilities": {}, "clientInfo": { "name": "test", "version": "1" } });
    let sent = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello });
    let reply = service.send(&raw(&token, sent.to_string()));
    let said = result(&reply);
    assert_eq!((&said["protocolVersion"], &said["capabilities"]), (&json!(LEGACY), &json!({ "tools": {} })));
    assert_eq!(said["serverInfo"]["name"], "contactd");
    assert!(reply.headers.iter().all(|(name, _)| name != "mcp-session-id"));
    let older = sent.to_string().replace(LEGACY, "2024-11-05");
    assert_eq!(
        result(&service.send(&raw(&token, older)))["protocolVersion"],
        LEGACY,
        "what this service speaks"
    );
    let told = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string();
    let reply = service.send(&raw(&token, told).header("MCP-Protocol-Version", LEGACY));
    assert_eq!((reply.status, &*reply.body), (202, ""));
    assert_eq!(result(&service.send(&legacy(&token, "ping", &json!({})))), json!({}));
    let tools = result(&service.send(&legacy(&token, "tools/list", &json!({}))));
    assert_eq!(tools["tools"].as_array().map(Vec::len), Some(3));
    assert_eq!(lines(&service.site), [[""; 4]; 0], "nothing was looked up");
}

#[test]
fn a_newer_client_asks_what_there_is_or_just_begins() {
    let (service, token) = Service::with(&AGENT, "");
    let said = result(&service.send(&modern(&token, "server/discover", &json!({}))));
    assert_eq!(said["supportedVersions"], json!([MODERN, LEGACY]));
    assert_eq!(said["capabilities"], json!({ "tools": {} }));
    assert_eq!((&said["ttlMs"], &said["cacheScope"]), (&json!(3_600_000), &json!("public")));
    let tools = result(&service.send(&modern(&token, "tools/list", &json!({}))));
    assert_eq!((&tools["ttlMs"], &tools["cacheScope"]), (&json!(300_000), &json!("private")));
    for tool in tools["tools"].as_array().expect("tools") {
        assert_eq!(tool["annotations"]["readOnlyHint"], true, "{tool}");
        assert_eq!(tool["inputSchema"]["required"], json!(["profileUrl"]), "{tool}");
        assert_eq!(tool["outputSchema"]["type"], "object", "{tool}");
    }
    assert_eq!(structured(&service.send(&call(&token, "fetch_phone_number", ADA)))["found"], true);
}

#[test]
fn headers_and_body_have_to_say_the_same() {
    let (service, token) = Service::with(&AGENT, "");
    let good = call(&token, "fetch_phone_number", ADA);
    for name in ["MCP-Protocol-Version", "Mcp-Method", "Mcp-Name"] {
        let without = good.clone().without(name);
        fails(&service.send(&without), 400, -32020, &json!(1));
        let wrong = without.header(name, if name == "MCP-Protocol-Version" { LEGACY } else { "tools/list" });
        fails(&service.send(&wrong), 400, -32020, &json!(1));
    }
    for (name, value) in [
        ("mcp-method", "tools/call"),
        ("MCP-NAME", "\t fetch_phone_number  "),
        ("Mcp-Name", "=?base64?ZmV0Y2hfcGhvbmVfbnVtYmVy?="),
    ] {
        let spelled = good.clone().without(name).header(name, value);
        assert_eq!(structured(&service.send(&spelled))["found"], true, "{name}: {value}");
    }
    let capital = good.without("Mcp-Method").header("Mcp-Method", "Tools/Call");
    fails(&service.send(&capital), 400, -32020, &json!(1));
    assert_eq!(lines(&service.site).iter().filter(|line| line[2] == "hit").count(), 3);
}

#[test]
fn every_request_says_which_version_it_speaks() {
    let (service, token) = Service::with(&AGENT, "");
    let with = |meta: &Value, version: &str| {
        let body =
            json!({ "jsonrpc": "2.0", "id": "a", "method": "tools/list", "params": { "_meta": meta } });
        raw(&token, body.to_string())
            .header("MCP-Protocol-Version", version)
            .header("Mcp-Method", "tools/list")
    };
    let mut other = meta();
    other["io.modelcontextprotocol/protocolVersion"] = "1900-01-01".into();
    let reply = service.send(&with(&other, "1900-01-01"));
    fails(&reply, 400, -32022, &json!("a"));
    let data = json!({ "supported": [MODERN, LEGACY], "requested": "1900-01-01" });
    assert_eq!(reply.json()["error"]["data"], data);
    fails(&service.send(&with(&other, MODERN)), 400, -32020, &json!("a"));
    fails(&service.send(&with(&json!({}), MODERN)), 400, -32602, &json!("a"));
    fails(&service.send(&with(&json!(7), MODERN)), 400, -32602, &json!("a"));
    let mut without = meta();
    without.as_object_mut().expect("an object").remove("io.modelcontextprotocol/clientCapabilities");
    fails(&service.send(&with(&without, MODERN)), 400, -32602, &json!("a"));
    let nothing = json!({ "jsonrpc": "2.0", "id": "a", "method": "tools/list" }).to_string();
    let said = fails(&service.send(&raw(&token, nothing)), 400, -32020, &json!("a"));
    assert_eq!(said, "The headers do not fit the body: MCP-Protocol-Version is missing.");
}

#[test]
fn what_is_not_understood_is_an_error_of_the_protocol() {
    let (service, token) = Service::with(&AGENT, "");
    let one = &json!(1);
    for method in ["prompts/list", "initialize", "ping", "subscriptions/listen", ""] {
        fails(&service.send(&modern(&token, method, &json!({}))), 404, -32601, one);
    }
    for method in ["prompts/list", "server/discover", "logging/setLevel"] {
        fails(&service.send(&legacy(&token, method, &json!({}))), 200, -32601, one);
    }
    for params in [
        json!({}),
        json!({ "name": 7 }),
        json!({ "name": "fetch_everything", "arguments": {} }),
        json!({ "name": "fetch_phone_number", "arguments": [] }),
        json!({ "name": "fetch_phone_number", "arguments": "x" }),
    ] {
        fails(&service.send(&legacy(&token, "tools/call", &params)), 200, -32602, one);
    }
    fails(&service.send(&modern(&token, "tools/call", &json!({ "name": "x" }))), 400, -32602, one);
    fails(&service.send(&modern(&token, "tools/list", &json!({ "cursor": "x" }))), 400, -32602, one);
    fails(&service.send(&legacy(&token, "initialize", &json!({}))), 200, -32602, one);
    for (body, code) in [
        ("", -32700),
        ("{\"jsonrpc\":", -32700),
        ("[]", -32600),
        ("[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]", -32600),
        ("{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}", -32600),
        ("{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"ping\"}", -32600),
    ] {
        fails(&service.send(&raw(&token, body)), 400, code, &Value::Null);
    }
    for body in ["{\"id\":1,\"method\":\"ping\"}", "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}"] {
        fails(&service.send(&raw(&token, body)), 400, -32600, one);
    }
    let recorded = lines(&service.site);
    assert!(recorded.iter().all(|line| line == &["mcp", "mcp", "refused", "bad_request"]), "{recorded:?}");
    assert!(recorded.len() >= 5);
}

#[test]
fn a_notification_has_no_answer_whatever_it_is() {
    let (service, token) = Service::with(&AGENT, "");
    for method in ["notifications/cancelled", "tools/call", "nothing"] {
        let mut sent = message(method, &json!({ "name": "fetch_phone_number" }));
        sent.as_object_mut().expect("an object").remove("id");
        let reply = service.send(&raw(&token, sent.to_string()));
        assert_eq!((reply.status, &*reply.body, reply.header("content-length")), (202, "", Some("0")));
    }
    assert_eq!(lines(&service.site), [[""; 4]; 0]);
}

#[test]
fn only_post_is_answered_and_only_with_a_token_for_agents() {
    let site = Site::with_people();
    let (agent, plain) = (site.token(&AGENT), site.token(&[]));
    let service = site.serve();
    for method in ["GET", "DELETE", "PUT", "OPTIONS"] {
        let reply = service.send(&Request::new(method, MCP).token(&agent));
        assert_eq!((reply.status, reply.header("allow")), (405, Some("POST")), "{method}");
        assert_eq!(reply.json()["error"]["data"]["error_code"], "method_not_allowed");
    }
    let list = |token: &str| service.send(&modern(token, "tools/list", &json!({})));
    assert_eq!(list(&agent).status, 200);
    for (token, challenge) in [
        ("x", "Bearer error=\"invalid_token\", error_description=\"unknown\""),
        (&plain, "Bearer error=\"insufficient_scope\", error_description=\"not for this operation\""),
    ] {
        let reply = list(token);
        assert_eq!(reply.header("www-authenticate"), Some(challenge));
        assert_eq!(fails(&reply, 401, 401, &json!(1)), "No authorization found.");
        assert_eq!(reply.json()["error"]["data"], json!({ "error_code": "no_authorization_found" }));
    }
    let reply = service.send(&modern(&agent, "tools/list", &json!({})).without("Authorization"));
    assert_eq!((reply.status, reply.header("www-authenticate")), (401, Some("Bearer")));
    let late = String::from_utf8(modern("x", "tools/list", &json!({})).bytes()).expect("UTF-8");
    let (head, body) = late.split_at(late.find("{\"").expect("a body"));
    let mut connection = service.connect();
    connection.send(head);
    std::thread::sleep(std::time::Duration::from_millis(50));
    connection.send(body);
    fails(&connection.reply(), 401, 401, &json!(1));
    assert_eq!(
        connection.ask(&modern(&agent, "tools/list", &json!({}))).status,
        200,
        "the connection goes on"
    );
    let text =
        modern(&agent, "tools/list", &json!({})).without("Content-Type").header("Content-Type", "text/plain");
    fails(&service.send(&text), 415, 415, &json!(1));
    let reasons: Vec<String> = lines(&service.site)
        .into_iter()
        .map(|[operation, via, _, reason]| format!("{operation} {via} {reason}"))
        .collect();
    assert_eq!(reasons, ["mcp mcp no_authorization_found", "mcp mcp unsupported_media_type"]);
}

#[test]
fn a_page_needs_a_listed_origin() {
    let config = format!("[cors]\nallow_origins = [\"{PAGE}\"]\n");
    let (service, token) = Service::with(&AGENT, &config);
    let list =
        |origin: &str| service.send(&modern(&token, "tools/list", &json!({})).header("Origin", origin));
    let reply = list(PAGE);
    assert_eq!((reply.status, reply.header("access-control-allow-origin")), (200, Some(PAGE)));
    for origin in ["https://elsewhere.example.com", "null", "http://127.0.0.1", "http://app.example.com"] {
        let said = fails(&list(origin), 403, 403, &json!(1));
        assert_eq!(said, "Pages of this origin are not allowed here.", "{origin}");
    }
    let preflight =
        Request::new("OPTIONS", MCP).header("Origin", PAGE).header("Access-Control-Request-Method", "POST");
    let reply = service.send(&preflight);
    let allowed: Vec<_> =
        reply.headers.iter().filter(|(name, _)| name == "access-control-allow-headers").collect();
    assert_eq!(reply.status, 204);
    assert!(
        allowed.iter().any(|(_, names)| names == "mcp-protocol-version, mcp-method, mcp-name"),
        "{allowed:?}"
    );
}

#[test]
fn a_base_path_moves_it() {
    let site = Site::with_people();
    let token = site.token(&AGENT);
    let service = site.serve_with(&["--base-path", "/contacts"], "");
    assert_eq!(service.send(&modern(&token, "tools/list", &json!({}))).status, 404);
    let body = message("tools/list", &json!({})).to_string();
    let moved = Request::lookup("/contacts/mcp", body).token(&token);
    let moved = moved.header("MCP-Protocol-Version", MODERN).header("Mcp-Method", "tools/list");
    assert_eq!(result(&service.send(&moved))["tools"].as_array().map(Vec::len), Some(3));
}
