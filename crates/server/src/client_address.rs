//! Which client a connection or a request comes from.
//!
//! That is the peer, unless the peer is one of the operator's proxies: then it is the last address in the header of the
//! proxies that is not itself one of them. An address is personal data: these types print as `<redacted>`.

use std::fmt;
use std::net::IpAddr;

use crate::forwarded;
use crate::proxies::{Proxies, first_bits};

/// The address at the other end of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Peer(IpAddr);

/// The address that a client is counted by: an IPv4 address, or the first 64 bits of an IPv6 address, because whoever has
/// one of those addresses usually has all of them.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ClientAddress(IpAddr);

impl Peer {
    pub(crate) fn new(address: IpAddr) -> Self {
        Self(address.to_canonical())
    }

    pub(crate) fn is_one_of(self, proxies: &Proxies) -> bool {
        proxies.contain(self.0)
    }
}

impl ClientAddress {
    /// The client of a connection.
    pub(crate) fn of_connection(peer: Peer) -> Self {
        Self(match peer.0 {
            address @ IpAddr::V4(_) => address,
            address @ IpAddr::V6(_) => first_bits(address, 64),
        })
    }

    /// The client of a request with this head. If a proxy names no address, the last address that is known counts, which
    /// is at worst the proxy's own.
    pub(crate) fn of_request(peer: Peer, head: &[u8], proxies: Option<&Proxies>) -> Self {
        let mut known = peer;
        if let Some(proxies) = proxies {
            let mut named = forwarded::addresses(head, proxies.header);
            while known.is_one_of(proxies)
                && let Some(Some(address)) = named.next()
            {
                known = Peer(address);
            }
        }
        Self::of_connection(known)
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<redacted>")
    }
}

impl fmt::Debug for ClientAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<redacted>")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxies::ProxyHeader;

    fn peer(text: &str) -> Peer {
        Peer::new(text.parse().expect(text))
    }

    fn proxies(header: ProxyHeader) -> Proxies {
        let ranges = ["10.0.0.0/8", "fd00::/8"].map(|range| range.parse().expect(range));
        Proxies { ranges: ranges.to_vec(), header }
    }

    fn client(from: &str, lines: &str) -> String {
        let head = format!("POST /a HTTP/1.1\r\nHost: x\r\n{lines}\r\n");
        let proxies = proxies(ProxyHeader::XForwardedFor);
        ClientAddress::of_request(peer(from), head.as_bytes(), Some(&proxies)).0.to_string()
    }

    #[test]
    fn without_proxies_it_is_the_peer_whatever_the_headers_say() {
        let head = b"GET / HTTP/1.1\r\nX-Forwarded-For: 192.0.2.9\r\nForwarded: for=192.0.2.9\r\n\r\n";
        assert_eq!(ClientAddress::of_request(peer("192.0.2.1"), head, None).0, peer("192.0.2.1").0);
    }

    #[test]
    fn who_is_not_a_proxy_cannot_name_another_client() {
        assert_eq!(client("192.0.2.1", "X-Forwarded-For: 192.0.2.9\r\n"), "192.0.2.1");
    }

    #[test]
    fn a_proxy_names_its_client_and_what_the_client_claimed_does_not_count() {
        assert_eq!(client("10.0.0.1", "X-Forwarded-For: 192.0.2.1\r\n"), "192.0.2.1");
        assert_eq!(client("10.0.0.1", "X-Forwarded-For: 192.0.2.9, 192.0.2.1\r\n"), "192.0.2.1");
        assert_eq!(client("10.0.0.1", "X-Forwarded-For: 10.0.0.9, 192.0.2.1\r\n"), "192.0.2.1");
        let lines = "X-Forwarded-For: 192.0.2.9\r\nX-Forwarded-For: 192.0.2.1\r\n";
        assert_eq!(client("10.0.0.1", lines), "192.0.2.1");
    }

    #[test]
    fn the_header_that_the_proxies_do_not_set_does_not_count() {
        let lines = "Forwarded: for=192.0.2.9\r\nX-Forwarded-For: 192.0.2.1\r\nForwarded: for=192.0.2.8\r\n";
        assert_eq!(client("10.0.0.1", lines), "192.0.2.1");
        let head = format!("POST /a HTTP/1.1\r\nHost: x\r\n{lines}\r\n");
        let proxies = proxies(ProxyHeader::Forwarded);
        let other = ClientAddress::of_request(peer("10.0.0.1"), head.as_bytes(), Some(&proxies));
        assert_eq!(other.0.to_string(), "192.0.2.8");
    }

    #[test]
    fn several_proxies_are_passed_and_the_first_that_is_not_one_is_the_client() {
        let lines =
            "X-Forwarded-For: 192.0.2.9, 192.0.2.1, fd00::2\r\nX-Forwarded-For: [fd00::3]:80, 10.0.0.2\r\n";
        assert_eq!(client("::ffff:10.0.0.1", lines), "192.0.2.1");
    }

    #[test]
    fn if_no_client_is_named_the_last_known_address_counts() {
        for (lines, expected) in [
            ("", "10.0.0.1"),
            ("X-Forwarded-For: \r\n", "10.0.0.1"),
            ("X-Forwarded-For: unknown\r\n", "10.0.0.1"),
            ("X-Forwarded-For: 192.0.2.9, unknown\r\n", "10.0.0.1"),
            ("X-Forwarded-For: 192.0.2.9, _x, 10.0.0.2\r\n", "10.0.0.2"),
            ("X-Forwarded-For: 10.0.0.3, 10.0.0.2\r\n", "10.0.0.3"),
        ] {
            assert_eq!(client("10.0.0.1", lines), expected, "{lines}");
        }
    }

    #[test]
    fn an_ipv6_client_counts_by_its_first_64_bits_and_ipv4_written_as_ipv6_is_ipv4() {
        let counted = |text: &str| ClientAddress::of_connection(peer(text));
        assert_eq!(counted("2001:db8:1:2:3:4:5:6"), counted("2001:db8:1:2::"));
        assert_ne!(counted("2001:db8:1:2::"), counted("2001:db8:1:3::"));
        assert_eq!(counted("::ffff:192.0.2.1"), counted("192.0.2.1"));
        assert_ne!(counted("192.0.2.1"), counted("192.0.2.2"));
        assert_eq!(client("10.0.0.1", "X-Forwarded-For: 2001:db8:1:2::5\r\n"), "2001:db8:1:2::");
    }

    #[test]
    fn an_address_is_not_printed() {
        let address = peer("192.0.2.1");
        assert_eq!(
            format!("{address:?} {:?}", ClientAddress::of_connection(address)),
            "<redacted> <redacted>"
        );
    }
}
