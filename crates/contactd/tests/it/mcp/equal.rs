//! Every kind of lookup, sent to the operation and as a call of a tool: limits, usage and journal are the same.

use serde_json::{Value, json};

use super::{call, result};
use crate::fixture::{ADA, EVE, MIRA, NOBODY, OLD, UNA};
use crate::http::Reply;
use crate::service::{EMAIL, PHONE, Service, Site};

const KINDS: [(&str, &str, &str); 11] = [
    (PHONE, "fetch_phone_number", ADA),
    (EMAIL, "fetch_personal_email", ADA),
    (EMAIL, "fetch_personal_email", EVE),
    (PHONE, "fetch_phone_number", EVE),
    (PHONE, "fetch_phone_number", NOBODY),
    (PHONE, "fetch_phone_number", UNA),
    (PHONE, "fetch_phone_number", OLD),
    (PHONE, "fetch_phone_number", "https://example.com/in/x"),
    (EMAIL, "fetch_personal_email", MIRA),
    (PHONE, "fetch_phone_number", MIRA),
    (PHONE, "fetch_phone_number", ADA),
];

/// What a lookup did.
#[derive(Debug, PartialEq)]
struct Effect {
    /// What was found, or the code.
    found: String,
    /// What is left of the limits, without times.
    left: String,
    counts: [Option<u64>; 3],
    /// Its line, without what tells it from others.
    line: Value,
}

fn left(reply: &Reply) -> String {
    let left = reply.header("ratelimit").expect("limits");
    left.split(';').filter(|part| !part.starts_with("t=")).collect::<Vec<_>>().join(";")
}

/// Looks up everything with one token, and gives what each did.
fn effects(
    service: &Service,
    name: &str,
    look_up: impl Fn(&str, &str, &str) -> (Reply, String),
) -> Vec<Effect> {
    let done: Vec<_> = KINDS
        .iter()
        .map(|(operation, tool, url)| {
            let (reply, found) = look_up(operation, tool, url);
            let count = |outcome| {
                let metrics = service.metrics();
                let of = format!("name=\"{name}\",outcome=\"{outcome}\"}} ");
                metrics.lines().find_map(|line| line.split_once(&of)?.1.parse().ok())
            };
            (found, left(&reply), ["hit", "miss", "refused"].map(count))
        })
        .collect();
    let mut lines = service.site.events(&["--token", name]);
    lines.retain(|line| line["token"].is_string());
    lines.reverse();
    for line in &mut lines {
        let fields = line.as_object_mut().expect("an object");
        for own in ["seq", "time", "requestId", "token", "tokenName", "via", "place"] {
            fields.remove(own);
        }
    }
    assert_eq!(lines.len(), done.len(), "one line each: {lines:?}");
    done.into_iter()
        .zip(lines)
        .map(|((found, left, counts), line)| Effect { found, left, counts, line })
        .collect()
}

fn found(body: &Value) -> Option<String> {
    body["phoneNumber"].as_str().or(body["email"].as_str()).map(str::to_owned)
}

#[test]
fn a_call_of_a_tool_does_what_the_operation_does() {
    let site = Site::with_people();
    let flags =
        ["--scope", "mcp", "--scope", "phone", "--scope", "email", "--quota", "4/day", "--rate", "100/h"];
    let create = |name: &str| site.ok(&[&["token", "create", name], &flags[..]].concat());
    let (single, agent) = (create("single"), create("agent"));
    let service = site.serve();
    let singly = effects(&service, "single", |operation, _, url| {
        let reply = service.look_up(operation, &single, url);
        let found = found(&reply.json()).unwrap_or_else(|| reply.code());
        (reply, found)
    });
    let called = effects(&service, "agent", |_, tool, url| {
        let reply = service.send(&call(&agent, tool, url));
        let said = result(&reply);
        let code = match said["structuredContent"]["found"] == json!(false) {
            true => "contact_not_found".to_owned(),
            false => said["_meta"]["error_code"].as_str().unwrap_or_default().to_owned(),
        };
        (reply, found(&said["structuredContent"]).unwrap_or(code))
    });
    assert_eq!(called, singly);
    assert_eq!(
        called.last().map(|last| &*last.found),
        Some("quota_exceeded"),
        "the last does not fit the quota any more"
    );
}
