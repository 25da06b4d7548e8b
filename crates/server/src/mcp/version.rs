//! Which version of the protocol a request speaks, and whether its headers agree with its body.

use serde_json::value::RawValue;

use super::fault::Fault;
use super::message::{Message, is_object, text};
use crate::head::Head;

/// Every request says what it is about, in its body and in its headers.
pub(super) const MODERN: &str = "2026-07-28";
/// A client shakes hands first. Nothing is kept of that.
pub(super) const LEGACY: &str = "2025-11-25";
/// All versions, the newest first.
pub(super) const SUPPORTED: [&str; 2] = [MODERN, LEGACY];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    Modern,
    Legacy,
}

/// The version of a request.
pub(super) fn of(head: &Head<'_>, message: &Message<'_>) -> Result<Version, Fault> {
    let meta = message.params.meta().ok_or_else(|| Fault::invalid_params("_meta is not an object."))?;
    let in_body = meta.protocol_version.map(|version| text(version).unwrap_or_default());
    let Some(in_header) = header(head, "mcp-protocol-version") else {
        return match in_body {
            None if message.method == "initialize" => Ok(Version::Legacy),
            _ => Err(mismatch("MCP-Protocol-Version is missing")),
        };
    };
    if in_body.as_ref().is_some_and(|in_body| *in_body != in_header) {
        return Err(mismatch("MCP-Protocol-Version is not the version in _meta"));
    }
    match &*in_header {
        MODERN => {}
        LEGACY => return Ok(Version::Legacy),
        _ => return Err(Fault::unsupported_version(&in_header, &SUPPORTED)),
    }
    if in_body.is_none() {
        return Err(Fault::invalid_params("_meta has no io.modelcontextprotocol/protocolVersion."));
    }
    if !meta.client_capabilities.is_some_and(is_object) {
        return Err(Fault::invalid_params("_meta has no io.modelcontextprotocol/clientCapabilities."));
    }
    check_headers(head, message)?;
    Ok(Version::Modern)
}

/// What routes a request by its headers has to see what is done.
fn check_headers(head: &Head<'_>, message: &Message<'_>) -> Result<(), Fault> {
    if header(head, "mcp-method").as_ref() != Some(&message.method) {
        return Err(mismatch("Mcp-Method is not the method in the body"));
    }
    let name = message.params.name.filter(|_| message.method == "tools/call");
    if name.is_some()
        && header(head, "mcp-name").and_then(plain) != name.and_then(|name: &RawValue| text(name))
    {
        return Err(mismatch("Mcp-Name is not the name in the body"));
    }
    Ok(())
}

fn mismatch(what: &str) -> Fault {
    Fault::header_mismatch(format!("The headers do not fit the body: {what}."))
}

fn header(head: &Head<'_>, name: &str) -> Option<String> {
    let value = head.find(name)?.trim_ascii();
    // What is not UTF-8 is not equal to anything.
    Some(String::from_utf8_lossy(value).into_owned())
}

/// The text of a header that may be written in Base64; none if that cannot be read.
fn plain(value: String) -> Option<String> {
    match value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) {
        Some(encoded) => String::from_utf8(from_base64(encoded)?).ok(),
        None => Some(value),
    }
}

fn from_base64(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=').as_bytes();
    let (mut bits, mut count, mut bytes) = (0_u32, 0, Vec::with_capacity(digits.len()));
    for digit in digits {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 & 0xFFFF | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from(bits >> count & 0xFF).ok()?);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_be_written_in_base64() {
        for (value, expected) in [
            ("fetch_phone_number", Some("fetch_phone_number")),
            ("=?base64?ZmV0Y2hfcGhvbmVfbnVtYmVy?=", Some("fetch_phone_number")),
            ("=?base64?SGVsbG8sIOS4lueVjA==?=", Some("Hello, 世界")),
            ("=?base64?IHBhZGRlZCA=?=", Some(" padded ")),
            ("=?base64??=", Some("")),
            ("=?base64?Zm9v!?=", None),
            ("=?base64?/w==?=", None),
            ("=?BASE64?Zm9v?=", Some("=?BASE64?Zm9v?=")),
        ] {
            assert_eq!(plain(value.to_owned()).as_deref(), expected, "{value}");
        }
    }
}
