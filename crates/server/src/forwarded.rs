//! Reads the addresses that proxies name in `Forwarded` or `X-Forwarded-For`.
//!
//! Both are lists, and every proxy adds the address that it got the request from at the end. What comes before may be
//! anything, because the client can send such a header too. So the list is read from its end, and nothing that a client
//! wrote changes how the later elements are read.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::proxies::ProxyHeader;

/// The addresses in all lines of the header, the last one first; `None` for an element that is not an address, such as
/// `unknown`. IPv4 addresses written as IPv6 are IPv4. The head must be complete, with whole line ends.
pub(crate) fn addresses(head: &[u8], header: ProxyHeader) -> impl Iterator<Item = Option<IpAddr>> {
    let lines = head.rsplit(|&b| b == b'\n');
    let lists = lines.filter_map(move |line| value(line, header.name()));
    lists.flat_map(move |list| elements(list, header)).map(move |element| {
        let address = match header {
            ProxyHeader::Forwarded => address(of_for(element)?),
            ProxyHeader::XForwardedFor => address(element),
        };
        address.map(|address| address.to_canonical())
    })
}

/// The value of a header line, if it has this name.
pub(crate) fn value<'a>(line: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let (found, value) = line.split_at_checked(name.len())?;
    let value = value.strip_prefix(b":")?;
    found.eq_ignore_ascii_case(name.as_bytes()).then_some(value)
}

/// The elements of a list that are not empty, the last one first.
fn elements(list: &[u8], header: ProxyHeader) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(list);
    let parts = std::iter::from_fn(move || {
        let list = rest?;
        let comma = match header {
            ProxyHeader::Forwarded => last_unquoted_comma(list),
            ProxyHeader::XForwardedFor => memchr::memrchr(b',', list),
        };
        rest = comma.map(|at| &list[..at]);
        Some(list[comma.map_or(0, |at| at + 1)..].trim_ascii())
    });
    parts.filter(|element| !element.is_empty())
}

/// The last comma that is not in a quoted string, as the text after it shows.
fn last_unquoted_comma(list: &[u8]) -> Option<usize> {
    let mut is_quoted = false;
    list.iter().enumerate().rev().find_map(|(at, byte)| match byte {
        b'"' if !is_escaped(list, at) => {
            is_quoted = !is_quoted;
            None
        }
        b',' if !is_quoted => Some(at),
        _ => None,
    })
}

/// Whether an odd number of backslashes is before this byte.
fn is_escaped(text: &[u8], at: usize) -> bool {
    text[..at].iter().rev().take_while(|&&b| b == b'\\').count() % 2 == 1
}

/// The value of `for` in an element of `Forwarded`, without quotes; `None` unless there is exactly one.
fn of_for(element: &[u8]) -> Option<&[u8]> {
    let mut is_quoted = false;
    let mut found = None;
    let mut start = 0;
    for at in 0..=element.len() {
        match element.get(at) {
            Some(b'"') if !is_escaped(element, at) => is_quoted = !is_quoted,
            None | Some(b';') if !is_quoted => {
                if let Some(value) = for_pair(element[start..at].trim_ascii()) {
                    if found.is_some() {
                        return None;
                    }
                    found = Some(value);
                }
                start = at + 1;
            }
            _ => {}
        }
    }
    let value = found?;
    match value.strip_prefix(b"\"") {
        Some(quoted) => quoted.strip_suffix(b"\""),
        None => Some(value),
    }
}

fn for_pair(pair: &[u8]) -> Option<&[u8]> {
    let (name, value) = pair.split_at_checked("for=".len())?;
    name.eq_ignore_ascii_case(b"for=").then_some(value)
}

/// An address, perhaps with a port, which is not used. IPv6 addresses with a port are in brackets.
fn address(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text).ok()?;
    if let Some(bracketed) = text.strip_prefix('[') {
        let (address, port) = bracketed.split_once(']')?;
        let is_port = port.is_empty() || port.strip_prefix(':').is_some_and(is_port);
        return address.parse::<Ipv6Addr>().ok().filter(|_| is_port).map(IpAddr::V6);
    }
    match text.split_once(':') {
        Some((address, port)) if !port.contains(':') => {
            address.parse::<Ipv4Addr>().ok().filter(|_| is_port(port)).map(IpAddr::V4)
        }
        _ => text.parse().ok(),
    }
}

/// Whether this is a port: a number, or a name that hides it (`_x`).
fn is_port(text: &str) -> bool {
    let is_hidden =
        |name: &str| name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'));
    match text.strip_prefix('_') {
        Some(name) => !name.is_empty() && is_hidden(name),
        None => (1..=5).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The addresses as text, `-` for what is not an address.
    fn read(header: ProxyHeader, lines: &[&str]) -> Vec<String> {
        let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
        let head = format!("\r\nPOST /a HTTP/1.1\r\nHost: x\r\n{lines}Accept: */*\r\n\r\n");
        addresses(head.as_bytes(), header)
            .map(|address| address.map_or_else(|| "-".to_owned(), |address| address.to_string()))
            .collect()
    }

    fn forwarded(value: &str) -> Vec<String> {
        read(ProxyHeader::Forwarded, &[&format!("Forwarded: {value}")])
    }

    fn x_forwarded_for(value: &str) -> Vec<String> {
        read(ProxyHeader::XForwardedFor, &[&format!("X-Forwarded-For: {value}")])
    }

    /// A line has an address as both headers may name it, or the whole value of one of them; then what it means, the last one first.
    #[test]
    fn addresses_are_read_from_the_end_of_the_list() {
        for line in include_str!("forwarded.txt").lines() {
            let (text, meant) = line.split_once(" | ").expect("two columns");
            let meant: Vec<&str> = meant.split_whitespace().collect();
            match text.split_once(": ") {
                Some(("Forwarded", value)) => assert_eq!(forwarded(value), meant, "{line}"),
                Some((_, value)) => assert_eq!(x_forwarded_for(value), meant, "{line}"),
                None => {
                    assert_eq!(x_forwarded_for(text), meant, "{line}");
                    assert_eq!(forwarded(&format!("for=\"{text}\"")), meant, "{line}");
                    let among_others = format!("proto=https;FOR=\"{text}\" ; by=_me");
                    assert_eq!(forwarded(&among_others), meant, "{line}");
                }
            }
        }
    }

    #[test]
    fn several_lines_are_one_list_and_only_the_one_header_is_read() {
        let lines = [
            "x-forwarded-for: 192.0.2.1, 192.0.2.2",
            "Forwarded: for=198.51.100.1",
            "X-Forwarded-Forx: 192.0.2.8",
            "XX-Forwarded-For: 192.0.2.9",
            "X-FORWARDED-FOR:192.0.2.3",
        ];
        assert_eq!(read(ProxyHeader::XForwardedFor, &lines), ["192.0.2.3", "192.0.2.2", "192.0.2.1"]);
        assert_eq!(read(ProxyHeader::Forwarded, &lines), ["198.51.100.1"]);
        assert!(read(ProxyHeader::Forwarded, &[]).is_empty());
    }

    #[test]
    fn nothing_that_a_client_sent_changes_how_the_elements_after_it_are_read() {
        for sent in [
            "for=\"192.0.2.9",
            "\"",
            "for=\"",
            "\\",
            "for=\"\\",
            "for=\"a\\\"",
            ";;;",
            "for=\"192.0.2.9;",
            "=",
            "\\\"",
            "for=\"x, for=192.0.2.9",
        ] {
            for added in
                ["for=192.0.2.1", "for=\"[2001:db8::1]:80\"", "for=192.0.2.1;host=\"a, b;for=192.0.2.9\\\"\""]
            {
                let expected = if added.contains("2001") { "2001:db8::1" } else { "192.0.2.1" };
                assert_eq!(forwarded(&format!("{sent}, {added}"))[0], expected, "{sent} and {added}");
                let lines = [format!("Forwarded: {sent}"), format!("Forwarded: {added}")];
                let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
                assert_eq!(read(ProxyHeader::Forwarded, &lines)[0], expected, "{sent} and {added}");
            }
            assert_eq!(x_forwarded_for(&format!("{sent}, 192.0.2.1"))[0], "192.0.2.1", "{sent}");
        }
    }
}
