//! The operator's own proxies: which addresses they have, and in which header they name the client.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// The proxies in front of the service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxies {
    /// The addresses that they connect from.
    pub ranges: Vec<AddressRange>,
    /// The one header that they set themselves. The other one may come from anybody.
    pub header: ProxyHeader,
}

/// The header in which proxies name the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyHeader {
    /// `Forwarded`, the standard (RFC 7239).
    Forwarded,
    /// `X-Forwarded-For`.
    XForwardedFor,
}

/// One address, or all addresses with the same first bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRange {
    first: IpAddr,
    /// How many of the first bits are the same, at least one.
    prefix: u8,
}

/// Why a setting about proxies is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProxyError {
    /// It is not an address and not a range.
    #[error(
        "`{0}` is not an address or a range of addresses: write it like 10.0.0.7, 10.0.0.0/8 or fd00::/8"
    )]
    Range(String),
    /// It could be an address or a range.
    #[error(
        "`{given}` could mean one address or many: write {address} for the one, or {range} for all in the range"
    )]
    Unclear {
        /// What was given.
        given: String,
        /// The one address.
        address: IpAddr,
        /// The whole range.
        range: AddressRange,
    },
    /// It contains all addresses.
    #[error(
        "`{0}` contains all addresses, so every client could claim any address: list only the addresses of your \
         own proxies"
    )]
    Everybody(String),
    /// It is not one of the two headers.
    #[error("`{0}` is not a header that this service reads: use forwarded or x-forwarded-for")]
    Header(String),
}

impl Proxies {
    /// Whether one of the proxies has this address.
    pub(crate) fn contain(&self, address: IpAddr) -> bool {
        self.ranges.iter().any(|range| range.contains(address))
    }
}

impl ProxyHeader {
    /// The name of the header, in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Forwarded => "forwarded",
            Self::XForwardedFor => "x-forwarded-for",
        }
    }
}

impl FromStr for ProxyHeader {
    type Err = ProxyError;

    fn from_str(text: &str) -> Result<Self, ProxyError> {
        let known = [Self::Forwarded, Self::XForwardedFor];
        let found = known.into_iter().find(|header| header.name().eq_ignore_ascii_case(text));
        found.ok_or_else(|| ProxyError::Header(text.to_owned()))
    }
}

impl AddressRange {
    /// Whether the address, which is not IPv4 written as IPv6, is in the range.
    fn contains(self, address: IpAddr) -> bool {
        bits(address).1 == bits(self.first).1 && first_bits(address, self.prefix) == self.first
    }
}

/// An address as a number, and how many bits it has.
fn bits(address: IpAddr) -> (u128, u8) {
    match address {
        IpAddr::V4(address) => (u128::from(address.to_bits()), 32),
        IpAddr::V6(address) => (address.to_bits(), 128),
    }
}

/// The address with all bits after the prefix, which has at least one bit, set to zero.
pub(crate) fn first_bits(address: IpAddr, prefix: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(u32::from(32_u8.saturating_sub(prefix))).unwrap_or(0);
            IpAddr::V4((address.to_bits() & mask).into())
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(u32::from(128_u8.saturating_sub(prefix))).unwrap_or(0);
            IpAddr::V6((address.to_bits() & mask).into())
        }
    }
}

impl FromStr for AddressRange {
    type Err = ProxyError;

    fn from_str(text: &str) -> Result<Self, ProxyError> {
        let wrong = || ProxyError::Range(text.to_owned());
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let written: IpAddr = address.parse().map_err(|_| wrong())?;
        let written_bits = bits(written).1;
        let prefix = match prefix {
            None => written_bits,
            Some(digits) if digits.bytes().all(|b| b.is_ascii_digit()) => {
                digits.parse().ok().filter(|&prefix| prefix <= written_bits).ok_or_else(wrong)?
            }
            Some(_) => return Err(wrong()),
        };
        // IPv4 addresses can be written as IPv6 addresses; then the first 96 bits are always the same.
        let (address, prefix) = match written.to_canonical() {
            address if address == written => (address, prefix),
            address => (address, prefix.checked_sub(96).ok_or_else(wrong)?),
        };
        let range = Self { first: first_bits(address, prefix), prefix };
        match prefix {
            0 => Err(ProxyError::Everybody(text.to_owned())),
            _ if range.first != address => {
                Err(ProxyError::Unclear { given: text.to_owned(), address, range })
            }
            _ => Ok(range),
        }
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.first.fmt(f)?;
        if self.prefix < bits(self.first).1 {
            write!(f, "/{}", self.prefix)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(text: &str) -> AddressRange {
        text.parse().expect(text)
    }

    #[test]
    fn a_range_contains_the_addresses_with_its_first_bits() {
        for (text, inside, outside) in [
            ("10.0.0.0/8", ["10.0.0.0", "10.255.255.255"], ["11.0.0.0", "::a00:0"]),
            ("10.1.2.3", ["10.1.2.3", "10.1.2.3"], ["10.1.2.2", "10.1.2.4"]),
            ("192.0.2.128/25", ["192.0.2.128", "192.0.2.255"], ["192.0.2.127", "192.0.3.128"]),
            ("128.0.0.0/1", ["128.0.0.0", "255.255.255.255"], ["127.255.255.255", "8000::"]),
            ("fd00::/8", ["fd00::", "fdff::1"], ["fe00::", "253.0.0.0"]),
            ("::1", ["::1", "::1"], ["::2", "127.0.0.1"]),
            ("2001:db8::/127", ["2001:db8::", "2001:db8::1"], ["2001:db8::2", "2001:db7:ffff::"]),
        ] {
            let range = range(text);
            let contains = |address: &str| range.contains(address.parse().expect(address));
            assert_eq!(inside.map(contains), [true; 2], "{text}");
            assert_eq!(outside.map(contains), [false; 2], "{text}");
            assert_eq!(range.to_string(), text);
        }
    }

    #[test]
    fn ipv4_written_as_ipv6_is_ipv4() {
        assert_eq!(range("::ffff:10.0.0.7"), range("10.0.0.7"));
        assert_eq!(range("::ffff:10.0.0.0/104"), range("10.0.0.0/8"));
        assert_eq!(range("10.0.0.7/32"), range("10.0.0.7"));
    }

    #[test]
    fn what_is_not_a_range_or_is_too_much_is_refused() {
        let wrong = "x 10.0.0 10.0.0.0/ 10.0.0.0/33 10.0.0.0/+8 10.0.0.0/8/8 ::/129 [::1] 10.0.0.7:80 ::ffff:10.0.0.0/95";
        for text in wrong.split(' ').chain(["", " ::1"]) {
            assert_eq!(text.parse::<AddressRange>(), Err(ProxyError::Range(text.to_owned())));
        }
        for text in ["0.0.0.0/0", "::/0", "::ffff:0.0.0.0/96"] {
            assert_eq!(text.parse::<AddressRange>(), Err(ProxyError::Everybody(text.to_owned())));
        }
    }
}
