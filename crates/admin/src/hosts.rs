//! Which values of `Host` are accepted.

use std::net::{IpAddr, Ipv6Addr};

/// The host names that the admin listener accepts in addition to IP addresses and loopback names.
#[derive(Clone, Debug, Default)]
pub struct Hosts(Vec<String>);

impl Hosts {
    /// Accepts these names, which have no port. Case does not matter.
    pub fn new(names: impl IntoIterator<Item = String>) -> Self {
        Self(names.into_iter().map(|name| plain(&name).to_ascii_lowercase()).collect())
    }

    /// Whether requests for this host, with or without a port, are accepted.
    pub(crate) fn allow(&self, host: &str) -> bool {
        let Some(name) = without_port(host) else { return false };
        let name = plain(name).to_ascii_lowercase();
        let address = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        match address {
            Some(address) => address.parse::<Ipv6Addr>().is_ok(),
            None => {
                name.parse::<IpAddr>().is_ok_and(|address| address.is_ipv4())
                    || name == "localhost"
                    || name.ends_with(".localhost")
                    || self.0.contains(&name)
            }
        }
    }
}

/// A name without its final dot, if it has one.
fn plain(name: &str) -> &str {
    name.strip_suffix('.').unwrap_or(name)
}

/// A host without its port; none if the port is not a number.
fn without_port(host: &str) -> Option<&str> {
    let end = host.rfind(']').map_or(0, |bracket| bracket + 1);
    match host[end..].rsplit_once(':') {
        None => Some(host),
        Some((before, port)) => port.bytes().all(|b| b.is_ascii_digit()).then(|| &host[..end + before.len()]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_loopback_names_and_configured_names_are_accepted() {
        let hosts = Hosts::new(["Metrics.internal.example".to_owned()]);
        for host in [
            "127.0.0.1",
            "127.0.0.1:8081",
            "[::1]:8081",
            "[fd00::2]",
            "10.0.0.7:9",
            "localhost",
            "LocalHost:8081",
            "localhost.",
            "contactd.localhost:80",
            "metrics.INTERNAL.example:8081",
            "metrics.internal.example.",
        ] {
            assert!(hosts.allow(host), "{host}");
        }
        for host in [
            "",
            ":8081",
            "rebind.example",
            "rebind.example:8081",
            "localhost.rebind.example",
            "127.0.0.1.rebind.example",
            "notlocalhost",
            "metrics.internal.example.rebind.example",
            "::1",
            "[::1",
            "[rebind.example]",
            "localhost:8081:x",
            "localhost@rebind.example",
        ] {
            assert!(!hosts.allow(host), "{host}");
        }
    }
}
