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

    #[test]
    fn the_client_is_the_last_address_that_is_not_one_of_the_proxies() {
        let ranges = ["10.0.0.0/8", "fd00::/8"].map(|range| range.parse().expect(range)).to_vec();
        let proxies = Proxies { ranges, header: ProxyHeader::XForwardedFor };
        for (from, named, expected) in [
            ("192.0.2.1", "192.0.2.9", "192.0.2.1"),
            ("10.0.0.1", "10.0.0.9, 192.0.2.1", "192.0.2.1"),
            ("::ffff:10.0.0.1", "192.0.2.9, 192.0.2.1, fd00::2, [fd00::3]:80, 10.0.0.2", "192.0.2.1"),
            ("10.0.0.1", "2001:db8:1:2::5", "2001:db8:1:2::"),
            ("2001:db8:1:2:3:4:5:6", "", "2001:db8:1:2::"),
            ("::ffff:192.0.2.1", "", "192.0.2.1"),
            ("10.0.0.1", "", "10.0.0.1"),
            ("10.0.0.1", "192.0.2.9, unknown", "10.0.0.1"),
            ("10.0.0.1", "192.0.2.9, _x, 10.0.0.2", "10.0.0.2"),
            ("10.0.0.1", "10.0.0.3, 10.0.0.2", "10.0.0.3"),
        ] {
            let head = format!("POST /a HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: {named}\r\n\r\n");
            let client = ClientAddress::of_request(peer(from), head.as_bytes(), Some(&proxies));
            assert_eq!(client.0.to_string(), expected, "{from}, {named}");
        }
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
