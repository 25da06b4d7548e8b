//! The target of a request: the part of the first line between the method and the version.
//!
//! RFC 9112, section 3.2, has four forms. The tunnel form belongs to CONNECT and is refused with it. This module
//! also refuses characters that some servers and proxies change or end a path at.

/// A target that may be served.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Target<'a> {
    /// Still encoded, without the query.
    pub(crate) path: &'a str,
    /// The host and port, if the target is a full URL.
    pub(crate) authority: Option<&'a str>,
}

/// Reads a target, or returns `None` if it has none of the forms that the method may have.
pub(crate) fn read<'a>(method: &str, target: &'a str) -> Option<Target<'a>> {
    // Most are only a path without escapes.
    if target.starts_with('/') && target.bytes().all(|b| PATH[usize::from(b)]) {
        return Some(Target { path: target, authority: None });
    }
    let (path, query) = match memchr::memchr(b'?', target.as_bytes()) {
        Some(at) => (&target[..at], &target[at + 1..]),
        None => (target, ""),
    };
    if !query.bytes().all(|b| QUERY[usize::from(b)]) {
        return None;
    }
    if path.starts_with('/') {
        return is_path(path).then_some(Target { path, authority: None });
    }
    if target == "*" {
        return (method == "OPTIONS").then_some(Target { path, authority: None });
    }
    let (scheme, rest) = path.split_once("://")?;
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        return None;
    }
    let (authority, path) = match memchr::memchr(b'/', rest.as_bytes()) {
        Some(at) => rest.split_at(at),
        None => (rest, "/"),
    };
    (is_authority(authority.as_bytes()) && is_path(path))
        .then_some(Target { path, authority: Some(authority) })
}

/// Whether this is a host, with a port or without. User names are refused.
pub(crate) fn is_authority(text: &[u8]) -> bool {
    // Most are only a name.
    if !text.is_empty() && text.iter().all(|&b| NAME[usize::from(b)]) {
        return true;
    }
    let Ok(text) = std::str::from_utf8(text) else { return false };
    let (is_host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let Some((address, port)) = rest.split_once(']') else { return false };
            (address.parse::<std::net::Ipv6Addr>().is_ok(), port)
        }
        None => {
            let (name, port) = text.split_at(text.find(':').unwrap_or(text.len()));
            (!name.is_empty() && name.bytes().all(|b| NAME[usize::from(b)]), port)
        }
    };
    let is_port = |port: &str| port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok();
    is_host && (port.is_empty() || port.strip_prefix(':').is_some_and(is_port))
}

/// Letters, digits and these characters, as a table: every byte of every request is looked up.
const fn letters_digits_and(others: &[u8]) -> [bool; 256] {
    let mut table = [false; 256];
    let mut byte = 0_u8;
    while byte < 128 {
        table[byte as usize] = byte.is_ascii_alphanumeric();
        byte += 1;
    }
    let mut at = 0;
    while at < others.len() {
        table[others[at] as usize] = true;
        at += 1;
    }
    table
}

/// The characters of a name in RFC 3986, without the comma, at which some servers split a list, and without escapes, which
/// others refuse in a host.
static NAME: [bool; 256] = letters_digits_and(b"-._~!$&'()*+;=");

/// The characters of a path, besides the `%` of an escape.
static PATH: [bool; 256] = letters_digits_and(b"-._~!$&'()*+;=/:@,");

/// The characters of a query: those of RFC 3986, and those that browsers do not encode.
static QUERY: [bool; 256] = letters_digits_and(b"-._~!$&'()*+;=/:@,%?[]\\^`{|}");

fn is_path(path: &str) -> bool {
    path.bytes().all(|b| PATH[usize::from(b)] || b == b'%') && has_whole_escapes(path)
}

/// Whether two hexadecimal digits follow every `%`.
fn has_whole_escapes(text: &str) -> bool {
    let bytes = text.as_bytes();
    memchr::memchr_iter(b'%', bytes)
        .all(|at| bytes.get(at + 1..at + 3).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)))
}
