//! Addresses that the operator configures: where the service is, and which web pages may call it.

use std::str::FromStr;

/// Why an address is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// It is not a base path.
    #[error("`{0}` is not a base path: write it like /contacts")]
    BasePath(String),
    /// It is not a public URL.
    #[error(
        "`{0}` is not a public URL: write it like https://contacts.example.com or https://example.com/contacts"
    )]
    PublicUrl(String),
    /// It is not an origin.
    #[error(
        "`{0}` is not an origin as browsers send it: write it like https://app.example.com or \
         https://app.example.com:8443, in lower case, without a path and without a slash at the end; http:// is \
         accepted for localhost only"
    )]
    Origin(String),
    /// Every origin was allowed at once.
    #[error(
        "`*` would let every web page call the service: list the pages' origins, such as https://app.example.com"
    )]
    AnyOrigin,
}

/// A path prefix: empty, or starting with `/` and without a slash at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BasePath(String);

/// The address at which clients reach the service, without a slash at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicUrl(String);

/// The origin of a web page, exactly as browsers send it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin(String);

impl BasePath {
    /// The path.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for BasePath {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let path = text.trim_end_matches('/');
        if is_path(path) { Ok(Self(path.to_owned())) } else { Err(AddressError::BasePath(text.to_owned())) }
    }
}

impl PublicUrl {
    /// The whole address.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The path in it: empty, or starting with `/`.
    pub fn path(&self) -> &str {
        split(&self.0).map_or("", |parts| parts.path)
    }
}

impl FromStr for PublicUrl {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let url = text.trim_end_matches('/');
        match split(url) {
            Some(parts) if is_path(parts.path) => Ok(Self(url.to_owned())),
            _ => Err(AddressError::PublicUrl(text.to_owned())),
        }
    }
}

impl Origin {
    /// The origin.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Origin {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if text == "*" {
            return Err(AddressError::AnyOrigin);
        }
        let is_origin = split(text).is_some_and(|Parts { is_https, host, port, path }| {
            let is_local = matches!(host, "localhost" | "127.0.0.1" | "[::1]");
            // Browsers leave out the scheme's own port.
            let own_port = if is_https { "443" } else { "80" };
            let is_port = port.is_none_or(|port| port != own_port && !port.starts_with('0'));
            (is_https || is_local) && is_port && path.is_empty()
        });
        let is_lower = !text.bytes().any(|b| b.is_ascii_uppercase());
        if is_origin && is_lower {
            Ok(Self(text.to_owned()))
        } else {
            Err(AddressError::Origin(text.to_owned()))
        }
    }
}

struct Parts<'a> {
    is_https: bool,
    host: &'a str,
    port: Option<&'a str>,
    path: &'a str,
}

/// The parts of a web address: a name or an IP address, perhaps a port, perhaps a path. Nothing else may be in it.
fn split(url: &str) -> Option<Parts<'_>> {
    let (scheme, rest) = url.split_once("://")?;
    let is_https = match scheme {
        "https" => true,
        "http" => false,
        _ => return None,
    };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    // The colons of an IPv6 address are in brackets.
    let host_ends = authority.rfind(']').map_or(0, |bracket| bracket + 1);
    let (host, port) = match authority[host_ends..].find(':') {
        Some(colon) => (&authority[..host_ends + colon], Some(&authority[host_ends + colon + 1..])),
        None => (authority, None),
    };
    let is_port = port.is_none_or(|port| port.parse::<u16>().is_ok_and(|number| number > 0));
    (is_host(host) && is_port).then_some(Parts { is_https, host, port, path })
}

fn is_host(host: &str) -> bool {
    if let Some(address) = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return address.parse::<std::net::Ipv6Addr>().is_ok();
    }
    host.split('.').all(|label| {
        !label.is_empty() && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    })
}

/// Whether a path is empty, or segments that need no encoding.
fn is_path(path: &str) -> bool {
    let is_segment = |segment: &str| {
        !segment.is_empty()
            && segment.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._~".contains(&b))
            && segment.bytes().any(|b| b != b'.')
    };
    path.is_empty() || path.strip_prefix('/').is_some_and(|rest| rest.split('/').all(is_segment))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line has what is read and how it is written, then what it is, or `-` if it is refused.
    #[test]
    fn addresses_are_read_and_what_is_none_is_refused() {
        for line in include_str!("address.txt").lines() {
            let (text, expected) = line.split_once(" | ").expect("two columns");
            let read = if let Some(path) = text.strip_prefix("base path ") {
                path.parse().map(|BasePath(path)| if path.is_empty() { "(root)".to_owned() } else { path })
            } else if let Some(url) = text.strip_prefix("public URL ") {
                url.parse::<PublicUrl>().map(|url| format!("{} {}", url.as_str(), url.path()))
            } else {
                text.replacen("origin ", "", 1).parse().map(|Origin(origin)| origin)
            };
            assert_eq!(read.as_deref().unwrap_or("-").trim_end(), expected, "{line}");
        }
        assert!("https://app.example.com\r\nx: y".parse::<Origin>().is_err());
    }
}
