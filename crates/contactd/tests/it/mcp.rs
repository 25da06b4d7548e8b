//! `POST /mcp`: agents are answered, limited and recorded as the operations are.

mod equal;
mod hostile;
mod protocol;
mod stdio;
mod tokens;

use serde_json::{Value, json};

use crate::audit::Faulty;
use crate::fixture::{ADA, ADA_CANONICAL, ADA_EMAIL, ADA_PHONE, EVE, NOBODY};
use crate::http::{Reply, Request};
use crate::service::{PHONE, Service, Site, assert_has};

pub(crate) const MCP: &str = "/mcp";
const MODERN: &str = "2026-07-28";
const LEGACY: &str = "2025-11-25";

/// A token for agents, with these flags besides.
const AGENT: [&str; 8] = ["--scope", "mcp", "--scope", "phone", "--scope", "email", "--quota", "100/day"];

/// What a client says of itself with every request.
fn meta() -> Value {
    json!({ "io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {} })
}

fn message(method: &str, params: &Value) -> Value {
    let mut params = params.clone();
    params["_meta"] = meta();
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })
}

/// A message with the headers of the newest version.
fn modern(token: &str, method: &str, params: &Value) -> Request {
    let sent = raw(token, message(method, params).to_string());
    let sent = sent.header("MCP-Protocol-Version", MODERN).header("Mcp-Method", method);
    match params["name"].as_str().filter(|_| method == "tools/call") {
        Some(name) => sent.header("Mcp-Name", name),
        None => sent,
    }
}

/// A message of a client that has shaken hands.
fn legacy(token: &str, method: &str, params: &Value) -> Request {
    let sent = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    raw(token, sent.to_string()).header("MCP-Protocol-Version", LEGACY)
}

fn raw(token: &str, body: impl AsRef<[u8]>) -> Request {
    Request::lookup(MCP, body).token(token)
}

fn arguments(tool: &str, url: &str) -> Value {
    json!({ "name": tool, "arguments": { "profileUrl": url } })
}

fn call(token: &str, tool: &str, url: &str) -> Request {
    modern(token, "tools/call", &arguments(tool, url))
}

/// The result of a message, in an answer of which everything else is right, without what every result of the newest version has.
#[track_caller]
fn result(reply: &Reply) -> Value {
    assert_eq!(reply.status, 200, "{reply:?}");
    let mut answer = reply.json();
    assert_eq!((&answer["jsonrpc"], &answer["id"]), (&json!("2.0"), &json!(1)), "{answer}");
    assert_eq!(answer.as_object().map(serde_json::Map::len), Some(3), "{answer}");
    let mut result = answer["result"].take();
    let fields = result.as_object_mut().expect("an object");
    if fields.remove("resultType").is_some() {
        let meta = fields["_meta"].as_object_mut().expect("an object");
        let service = meta.remove("io.modelcontextprotocol/serverInfo").expect("who answers");
        assert_eq!(service["name"], "contactd");
        if meta.is_empty() {
            fields.remove("_meta");
        }
    }
    result
}

/// What a tool says, which stands in its text too.
#[track_caller]
fn structured(reply: &Reply) -> Value {
    let result = result(reply);
    assert_eq!(result["isError"], false, "{result}");
    let text = result["content"][0]["text"].as_str().expect("a text");
    assert_eq!(serde_json::from_str::<Value>(text).expect("JSON"), result["structuredContent"]);
    result["structuredContent"].clone()
}

/// Fails unless a tool refused with this code. Gives the rest of what it says, and the text.
#[track_caller]
fn refused(reply: &Reply, code: &str) -> (Value, String) {
    let mut result = result(reply);
    assert_eq!(
        (&result["isError"], &result["_meta"]["error_code"]),
        (&json!(true), &json!(code)),
        "{result}"
    );
    assert_eq!(result["structuredContent"], Value::Null);
    let text = result["content"][0]["text"].as_str().expect("a text").to_owned();
    result["_meta"].as_object_mut().expect("an object").remove("error_code");
    (result["_meta"].clone(), text)
}

/// The lines of requests, oldest first, as far as a test compares them.
fn lines(site: &Site) -> Vec<[String; 4]> {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let mut lines: Vec<_> = site.events(&[]).into_iter().filter(|event| event["token"].is_string()).collect();
    lines.reverse();
    lines
        .iter()
        .map(|line| ["operation", "via", "outcome", "reason"].map(|field| text(&line[field])))
        .collect()
}

#[test]
fn a_hit_is_the_value_of_the_operation_and_a_miss_is_no_error() {
    let (service, token) = Service::with(&AGENT, "");
    for send in
        [call, |token: &str, tool: &str, url: &str| legacy(token, "tools/call", &arguments(tool, url))]
    {
        assert_eq!(
            structured(&service.send(&send(&token, "fetch_phone_number", ADA))),
            json!({ "found": true, "phoneNumber": ADA_PHONE, "profileUrl": ADA_CANONICAL })
        );
        assert_eq!(
            structured(&service.send(&send(&token, "fetch_personal_email", ADA))),
            json!({ "found": true, "email": ADA_EMAIL, "profileUrl": ADA_CANONICAL })
        );
        let missed = json!({ "found": false, "profileUrl": EVE.replace("www.", "") });
        assert_eq!(structured(&service.send(&send(&token, "fetch_phone_number", EVE))), missed);
    }
    for outcome in ["ok", "miss"] {
        let of = |operation| format!("{{operation=\"{operation}\",outcome=\"{outcome}\"}}");
        let lookups = service.metric(&format!("contactd_lookups_total{}", of("phone")));
        assert_eq!(lookups, Some(2), "{outcome}");
        assert_eq!(service.metric(&format!("contactd_requests_total{}", of("phone"))), Some(0), "{outcome}");
    }
    assert_eq!(service.metric("contactd_requests_total{operation=\"mcp\",outcome=\"ok\"}"), Some(6));
    service.has_logged("\"operation\":\"mcp\"");
}

#[test]
fn a_url_that_is_refused_says_why_and_what_to_do() {
    let (service, token) = Service::with(&AGENT, "");
    let reply = service.send(&call(&token, "fetch_phone_number", "https://example.com/in/x"));
    let (meta, text) = refused(&reply, "invalid_profile_url");
    let hint = "Check the spelling of the host; ask the operator which networks are served.";
    assert_eq!(meta, json!({ "reason": "bad_host", "hint": hint }));
    assert_eq!(
        text,
        format!(
            "invalid_profile_url: Invalid profileUrl: https://example.com/in/x on /api/fetchPhoneNumber api call. The host belongs \
             to no network that this service knows. {hint}"
        )
    );
    for (arguments, reason) in [
        ("{}", "missing"),
        ("{\"profileUrl\":7}", "not_string"),
        ("{\"profileUrl\":\"a\",\"profileUrl\":\"b\"}", "duplicate"),
        ("{\"profileUrl\":\" \"}", "empty"),
    ] {
        let body = message("tools/call", &json!({ "name": "fetch_phone_number", "arguments": "@" }));
        let sent = raw(&token, body.to_string().replace("\"@\"", arguments));
        let sent = sent.header("MCP-Protocol-Version", MODERN).header("Mcp-Method", "tools/call");
        let reply = service.send(&sent.header("Mcp-Name", "fetch_phone_number"));
        assert_eq!(refused(&reply, "invalid_profile_url").0["reason"], reason, "{arguments}");
    }
    let none = modern(&token, "tools/call", &json!({ "name": "fetch_phone_number" }));
    assert_eq!(refused(&service.send(&none), "invalid_profile_url").0["reason"], "missing");
}

#[test]
fn a_url_is_checked_without_the_store_and_without_the_quota() {
    let site = Site::with_people();
    let token = site
        .token(&["--scope", "mcp", "--scope", "phone", "--quota", "0/day", "--rate", "1/h", "--burst", "3"]);
    let service = site.serve_with(&[], "[serve]\ntable_bytes = 0\n");
    service.ruin_details();
    let check = |url: &str| service.send(&call(&token, "check_profile_url", url));
    assert_eq!(
        structured(&check("http://de.linkedin.com/in/ADA-quell-1a2b3c/?trk=x")),
        json!({ "canonical": ADA_CANONICAL, "network": "linkedin" })
    );
    assert_eq!(
        structured(&check("https://www.linkedin.com/company/quell")),
        json!({
            "reason": "not_person",
            "hint": "Send a person's profile, not a company, a school, a job or a post.",
        })
    );
    let none = modern(&token, "tools/call", &json!({ "name": "check_profile_url" }));
    assert_eq!(structured(&service.send(&none))["reason"], "missing");
    let reply = check(ADA);
    let (meta, text) = refused(&reply, "rate_limited");
    let seconds = meta["retryAfter"].as_u64().expect("seconds");
    assert!((3_590..=3_600).contains(&seconds), "{seconds}");
    assert_eq!(reply.header("retry-after"), Some(&*seconds.to_string()));
    assert!(text.ends_with(&format!("Retry after {seconds} s.")), "{text}");
}

#[test]
fn a_check_of_a_url_has_no_line_unless_it_is_refused() {
    let site = Site::with_people();
    let token = site
        .token(&["--scope", "mcp", "--scope", "phone", "--quota", "9/day", "--rate", "1/h", "--burst", "1"]);
    let service = site.serve();
    assert_eq!(
        structured(&service.send(&call(&token, "check_profile_url", ADA)))["canonical"],
        ADA_CANONICAL
    );
    refused(&service.send(&call(&token, "check_profile_url", ADA)), "rate_limited");
    assert_eq!(lines(&service.site), [["mcp", "mcp", "refused", "rate_limited"]]);
}

#[test]
fn the_quota_ends_everything_and_is_shared_with_the_operations() {
    let site = Site::with_people();
    let token = site.token(&["--scope", "mcp", "--scope", "phone", "--quota", "2/day"]);
    let service = site.serve();
    assert_eq!(service.look_up(PHONE, &token, ADA).status, 200);
    assert_eq!(structured(&service.send(&call(&token, "fetch_phone_number", NOBODY)))["found"], false);
    let reply = service.send(&call(&token, "fetch_phone_number", ADA));
    assert_eq!(structured(&reply)["found"], true);
    assert!(reply.header("ratelimit").is_some_and(|left| left.starts_with("\"quota\";r=0;")), "{reply:?}");
    for url in [ADA, NOBODY, "x"] {
        let reply = service.send(&call(&token, "fetch_phone_number", url));
        let (meta, _) = refused(&reply, "quota_exceeded");
        assert!(meta["retryAfter"].as_u64().is_some_and(|seconds| seconds <= 86_400), "{meta}");
    }
    assert_eq!(service.look_up(PHONE, &token, NOBODY).status, 429);
    let site = service.stop();
    assert_has(&site.list(&["usage"])[0], json!({ "hits": 2, "misses": 1, "refused": 4 }));
    assert_eq!(
        lines(&site),
        [
            ["phone", "-", "hit", "-"],
            ["phone", "mcp", "miss", "-"],
            ["phone", "mcp", "hit", "-"],
            ["phone", "mcp", "refused", "quota_exceeded"],
            ["phone", "mcp", "refused", "quota_exceeded"],
            ["phone", "mcp", "refused", "quota_exceeded"],
            ["phone", "-", "refused", "quota_exceeded"],
        ]
    );
    let report = site.json(&["subject", ADA]);
    assert_eq!(report["disclosures"].as_array().map(Vec::len), Some(2), "{report}");
    site.ok(&["audit", "verify"]);
}

#[test]
fn a_detail_that_cannot_be_recorded_is_not_disclosed() {
    let site = Site::with_people();
    let token = site.token(&AGENT);
    let faulty = Faulty::on(site, &token, "ok", "");
    faulty.fail("full");
    let reply = faulty.service.send(&call(&token, "fetch_phone_number", ADA));
    let (meta, text) = refused(&reply, "service_unavailable");
    assert_eq!(meta, json!({ "retryAfter": 1 }));
    assert!(!text.contains(ADA_PHONE) && !reply.body.contains(ADA_PHONE));
}

#[test]
fn a_tool_outside_the_scopes_is_not_listed_and_takes_none_of_the_rate() {
    let site = Site::with_people();
    let token = site
        .token(&["--scope", "mcp", "--scope", "email", "--quota", "9/day", "--rate", "1/h", "--burst", "1"]);
    let service = site.serve();
    let listed = result(&service.send(&modern(&token, "tools/list", &json!({}))));
    let names: Vec<_> = listed["tools"].as_array().expect("tools").iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, ["fetch_personal_email", "check_profile_url"]);
    for _ in 0..3 {
        let reply = service.send(&call(&token, "fetch_phone_number", ADA));
        assert_eq!(
            refused(&reply, "no_authorization_found").1,
            "no_authorization_found: No authorization found."
        );
    }
    assert_eq!(structured(&service.send(&call(&token, "fetch_personal_email", ADA)))["email"], ADA_EMAIL);
    refused(&service.send(&call(&token, "fetch_personal_email", ADA)), "rate_limited");
    let lines = lines(&service.site);
    assert_eq!(lines[0], ["phone", "mcp", "refused", "no_authorization_found"]);
    assert_eq!(lines[3..], [["email", "mcp", "hit", "-"], ["email", "mcp", "refused", "rate_limited"]]);
}

#[test]
fn the_sandbox_answers_agents_too() {
    let site = Site::with_people();
    let token = site.token(&["--sandbox", "--scope", "mcp", "--scope", "phone"]);
    let service = site.serve();
    let of = |slug: &str| {
        service.send(&call(&token, "fetch_phone_number", &format!("https://www.linkedin.com/in/{slug}")))
    };
    let hit = of("sandbox-hit-1");
    assert_eq!((&structured(&hit)["found"], hit.header("x-contactd-sandbox")), (&json!(true), Some("true")));
    assert_eq!(structured(&of("sandbox-miss-1"))["found"], false);
    refused(&of("sandbox-quota-1"), "quota_exceeded");
    assert_eq!(refused(&of("sandbox-busy-1"), "service_unavailable").0, json!({ "retryAfter": 1 }));
    assert_eq!(refused(&of("sandbox-error-1"), "internal_error").1, "internal_error: Internal server error.");
    assert!(lines(&service.site).iter().all(|line| line[1] == "sandbox"));
}
