//! Splits a cleaned URL into scheme, user info, host, port and path.

use crate::Reason;
use crate::text::end_before;

/// The parts of a URL. Nothing is decoded yet, and the host is neither checked nor matched to a network yet.
#[derive(Debug)]
pub(crate) struct Split<'a> {
    /// The host as written, without one trailing dot.
    pub(crate) host: &'a str,
    pub(crate) has_userinfo: bool,
    pub(crate) port_is_default: bool,
    /// The path, empty or starting with `/`, without query and fragment.
    pub(crate) path: &'a str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Scheme {
    Http,
    /// Also used when the URL has no scheme: the canonical form is https.
    Https,
}

impl Scheme {
    fn default_port(self) -> &'static str {
        match self {
            Self::Http => "80",
            Self::Https => "443",
        }
    }
}

/// Splits a cleaned URL, or returns the reason why it is not a URL.
pub(crate) fn split(text: &str) -> Result<Split<'_>, Reason> {
    let (scheme, rest) = split_scheme(text)?;
    let (mut host, mut behind) =
        rest.split_at(end_before(rest, |b| ends_authority(b) || matches!(b, b'@' | b':')));
    let (mut port, mut has_userinfo) = ("", false);
    // Most have nothing but a host.
    if behind.starts_with(['@', ':']) {
        let authority;
        (authority, behind) = rest.split_at(end_before(rest, ends_authority));
        let host_port = authority.rsplit_once('@').map_or(authority, |(_, host_port)| host_port);
        has_userinfo = host_port.len() < authority.len();
        (host, port) = host_port.split_once(':').unwrap_or((host_port, ""));
    }
    let path = &behind[..end_before(behind, |b| matches!(b, b'?' | b'#'))];
    let host = host.strip_suffix('.').unwrap_or(host);
    Ok(Split { host, has_userinfo, port_is_default: port.is_empty() || port == scheme.default_port(), path })
}

fn ends_authority(b: u8) -> bool {
    matches!(b, b'/' | b'?' | b'#')
}

fn split_scheme(text: &str) -> Result<(Scheme, &str), Reason> {
    if let Some(rest) = text.strip_prefix("//") {
        return Ok((Scheme::Https, rest));
    }
    let (name, rest) = text.split_at(end_before(text, |b| b == b':' || ends_authority(b)));
    let Some(rest) = rest.strip_prefix(':') else {
        return without_scheme(text);
    };
    let Some(rest) = rest.strip_prefix("//") else {
        return match scheme(name) {
            Some(_) => Err(Reason::NotAUrl),
            // `example.com:443/…` is a host and a port, `tel:…` is a scheme.
            None if name.contains('.') => without_scheme(text),
            None => Err(unknown_scheme(name)),
        };
    };
    match scheme(name) {
        Some(_) if begins_with_scheme(rest) => Err(Reason::NotAUrl),
        Some(scheme) => Ok((scheme, rest)),
        None => Err(unknown_scheme(name)),
    }
}

fn scheme(name: &str) -> Option<Scheme> {
    if name.eq_ignore_ascii_case("https") {
        Some(Scheme::Https)
    } else if name.eq_ignore_ascii_case("http") {
        Some(Scheme::Http)
    } else {
        None
    }
}

/// Whether a second scheme follows the first, as in `http://https://…`.
fn begins_with_scheme(rest: &str) -> bool {
    let begins =
        |scheme: &str| rest.get(..scheme.len()).is_some_and(|name| name.eq_ignore_ascii_case(scheme));
    begins("http://") || begins("https://")
}

fn unknown_scheme(name: &str) -> Reason {
    let is_scheme_char = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.');
    if !name.is_empty() && name.bytes().all(is_scheme_char) { Reason::BadScheme } else { Reason::NotAUrl }
}

/// A URL without a scheme must start with something that could be a host.
fn without_scheme(text: &str) -> Result<(Scheme, &str), Reason> {
    if has_encoded_scheme(text) {
        return Err(Reason::BadEncoding);
    }
    let authority = &text[..end_before(text, ends_authority)];
    let begins_like_text = authority.starts_with(|c: char| c.is_ascii_punctuation());
    if begins_like_text || !authority.contains('.') {
        return Err(Reason::NotAUrl);
    }
    Ok((Scheme::Https, text))
}

/// Whether the whole URL was percent-encoded, as in `https%3A%2F%2F…`.
fn has_encoded_scheme(text: &str) -> bool {
    let (name, rest) = text.split_at(end_before(text, |b| b == b'%'));
    !rest.is_empty() && scheme(name).is_some()
}

/// Whether this is a name made of labels, none of them empty.
pub(crate) fn is_host(host: &str) -> bool {
    let mut label_is_empty = true;
    for b in host.bytes() {
        match b {
            b'.' if label_is_empty => return false,
            b'.' => label_is_empty = true,
            b'-' | b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => label_is_empty = false,
            _ => return false,
        }
    }
    !label_is_empty
}
