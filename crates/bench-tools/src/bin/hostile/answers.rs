//! What comes back: whether every answer is one that is documented.

use std::collections::BTreeMap;

use crate::PATHS;
use crate::requests::Exchange;

/// An answer, without its body.
struct Answer<'a> {
    status: u16,
    headers: BTreeMap<&'a str, &'a str>,
}

const KNOWN: [&str; 24] = [
    "content-type",
    "cache-control",
    "content-length",
    "connection",
    "date",
    "x-request-id",
    "x-invalid-reason",
    "www-authenticate",
    "allow",
    "retry-after",
    "location",
    "ratelimit",
    "ratelimit-policy",
    "accept-encoding",
    "access-control-allow-origin",
    "vary",
    "access-control-expose-headers",
    "access-control-allow-headers",
    "access-control-max-age",
    "access-control-allow-methods",
    "content-security-policy",
    "referrer-policy",
    "x-content-type-options",
    "server",
];

/// Takes one answer off the front, checked.
fn take<'a>(received: &mut &'a [u8], may_be_head: bool) -> Result<Answer<'a>, String> {
    let end = received
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .ok_or("an answer without the end of its head")?;
    let head = std::str::from_utf8(&received[..end]).map_err(|_| "a head that is not UTF-8")?;
    *received = &received[end + 4..];
    let mut lines = head.split("\r\n");
    let line = lines.next().unwrap_or_default();
    let status: u16 = line
        .strip_prefix("HTTP/1.1 ")
        .and_then(|rest| rest.get(..3)?.parse().ok())
        .ok_or_else(|| format!("status line {line:?}"))?;
    let mut headers = BTreeMap::new();
    for line in lines {
        let (name, value) = line.split_once(": ").ok_or_else(|| format!("header line {line:?}"))?;
        if !KNOWN.contains(&name) || value.bytes().any(|b| !(b' '..=b'~').contains(&b)) {
            return Err(format!("unknown header {line:?}"));
        }
        if headers.insert(name, value).is_some() {
            return Err(format!("{name} twice"));
        }
    }
    let answer = Answer { status, headers };
    if status == 100 {
        return if answer.headers.is_empty() { Ok(answer) } else { Err("100 with headers".to_owned()) };
    }
    let id = answer.headers.get("x-request-id").ok_or("no X-Request-Id")?;
    if id.is_empty() || id.len() > 128 || id.contains(' ') {
        return Err(format!("X-Request-Id {id:?}"));
    }
    answer.headers.get("date").ok_or("no Date")?;
    if status == 204 {
        return if answer.headers.contains_key("content-length") {
            Err("204 with a length".to_owned())
        } else {
            Ok(answer)
        };
    }
    let length: usize = answer
        .headers
        .get("content-length")
        .and_then(|length| length.parse().ok())
        .ok_or("no Content-Length")?;
    if may_be_head && (received.is_empty() || received.starts_with(b"HTTP/1.1 ")) {
        return Ok(answer);
    }
    let body = received.get(..length).ok_or("a body shorter than its Content-Length")?;
    *received = &received[length..];
    check(&answer, body)?;
    Ok(answer)
}

/// Whether headers and body are those that are documented for the status.
fn check(answer: &Answer<'_>, body: &[u8]) -> Result<(), String> {
    let has = |name: &str| answer.headers.contains_key(name);
    let is_json = answer.headers.get("content-type") == Some(&"application/json");
    if answer.status == 200 && (!is_json || body.len() > 4_096) {
        return if has("content-security-policy") {
            Ok(())
        } else {
            Err("200 that is neither JSON nor a page".to_owned())
        };
    }
    let text = std::str::from_utf8(body).map_err(|_| "a body that is not UTF-8")?;
    let fields: BTreeMap<&str, String> =
        serde_json::from_str(text).map_err(|_| "a body that is not an object of strings")?;
    let field = |name: &str| fields.get(name).map_or("", String::as_str);
    let names: Vec<&str> = fields.keys().copied().collect();
    if answer.headers.get("cache-control") != Some(&"no-store") {
        return Err("JSON without Cache-Control: no-store".to_owned());
    }
    if answer.status == 200 {
        let is_known = matches!(names[..], ["phoneNumber" | "email", "profileUrl"])
            && field("profileUrl").starts_with("https://")
            || matches!(text, r#"{"status":"ok"}"# | r#"{"status":"ready"}"#);
        return if is_known { Ok(()) } else { Err(format!("200 with {text}")) };
    }
    let ["message", "status"] = names[..] else { return Err(format!("fields {names:?}")) };
    let (code, message) = (field("status"), field("message"));
    let closes = answer.headers.get("connection") == Some(&"close");
    let is_right = match (answer.status, code) {
        (307, "temporary_redirect") => has("location"),
        (400, "invalid_profile_url") => {
            has("x-invalid-reason")
                && message.starts_with("Invalid profileUrl: ")
                && PATHS.iter().any(|path| message.ends_with(&format!(" on {path} api call.")))
        }
        (400, "bad_request") => closes && message == "The request is not valid HTTP/1.1 for this service.",
        (431, "bad_request") => closes && message == "The request line and headers are too large.",
        (401, "no_authorization_found") => {
            message == "No authorization found."
                && answer.headers.get("www-authenticate").is_some_and(|value| value.starts_with("Bearer"))
        }
        (404, "contact_not_found") => {
            ["No phone number found for https://", "No personal e-mail found for https://"]
                .iter()
                .any(|start| message.starts_with(start))
        }
        (404, "not_found") => message == "There is nothing at this path.",
        (405, "method_not_allowed") => {
            has("allow")
                && message == "This method is not allowed here; the Allow header lists those that are."
        }
        (408, "request_timeout") => closes && message == "The request body did not arrive in time.",
        (413, "request_too_large") => closes && message == "The request body is too large.",
        (415, "unsupported_media_type") => {
            message == "The request body must be JSON (Content-Type: application/json)."
                || has("accept-encoding")
                    && message == "The request body must not be encoded; send it without Content-Encoding."
        }
        (429, "rate_limited") => {
            has("retry-after")
                && has("ratelimit")
                && message == "Too many requests; retry after the time in Retry-After."
        }
        (429, "quota_exceeded") => {
            has("retry-after")
                && message
                    == "The quota of this token is used up; it is renewed after the time in Retry-After."
        }
        (503, "service_unavailable") => {
            has("retry-after")
                && message == "The service cannot take this request now; retry after the time in Retry-After."
        }
        _ => false,
    };
    if is_right { Ok(()) } else { Err(format!("{} with {text}", answer.status)) }
}

/// Checks all answers of an exchange and returns their statuses.
pub(crate) fn judge(exchange: &Exchange, received: &[u8], is_reset: bool) -> Result<Vec<u16>, String> {
    let may_be_head = exchange.bytes.windows(4).any(|four| four == b"HEAD");
    let (mut rest, mut statuses, mut closes) = (received, Vec::new(), false);
    while !rest.is_empty() {
        if closes {
            return Err("bytes after an answer that closes the connection".to_owned());
        }
        let answer = take(&mut rest, may_be_head)?;
        if answer.status == 100 {
            continue;
        }
        closes = answer.headers.get("connection") == Some(&"close");
        statuses.push(answer.status);
    }
    let answered = statuses.len() as u64;
    if exchange.is_sound && !exchange.is_dropped && !closes && (answered != exchange.requests || is_reset) {
        return Err(format!("{answered} answers to {} requests, reset: {is_reset}", exchange.requests));
    }
    let known = br#"{"phoneNumber":"+14155550107","profileUrl":"https://linkedin.com/in/told-quell-7"}"#;
    if exchange.is_control && statuses != [503] && !(statuses == [200] && received.ends_with(known)) {
        return Err("a good lookup failed".to_owned());
    }
    Ok(statuses)
}
