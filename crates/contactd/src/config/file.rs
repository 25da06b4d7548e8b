//! The format of the configuration file.

use std::path::PathBuf;

use contactd_core::{Case, Network, NetworkError, Networks, Quota, Rate, Span};
use contactd_server::{AddressRange, BasePath, ClientLimits, Origin, Proxies, ProxyHeader, PublicUrl};
use serde::Deserialize;

use crate::setting::{
    AtLeast, AuditSync, FromText, Interval, Keep, LeaseTime, Listen, LogFormat, LogLevel, NodeName, StoreAt,
};

/// What `contactd config example` prints: every setting, commented out, with its default or an example.
pub(crate) const EXAMPLE: &str = include_str!("example.toml");

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct File {
    pub(crate) data: Option<PathBuf>,
    pub(crate) store: Option<FromText<StoreAt>>,
    pub(crate) public_url: Option<FromText<PublicUrl>>,
    pub(crate) serve: Serve,
    pub(crate) tls: Tls,
    pub(crate) admin: Admin,
    pub(crate) cors: Cors,
    pub(crate) limits: Limits,
    pub(crate) clients: Clients,
    pub(crate) log: Log,
    pub(crate) audit: Audit,
    pub(crate) keys: Keys,
    pub(crate) retention: Retention,
    pub(crate) cluster: Cluster,
    networks: BuiltIn,
    pub(super) network: Vec<toml::Spanned<Own>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Serve {
    pub(crate) listen: Option<FromText<Listen>>,
    pub(crate) admin_listen: Option<FromText<Listen>>,
    pub(crate) base_path: Option<FromText<BasePath>>,
    pub(crate) workers: Option<AtLeast<1>>,
    pub(crate) access_log: Option<bool>,
    pub(crate) table_bytes: Option<AtLeast<0>>,
}

/// The certificate of the listeners.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Tls {
    pub(crate) cert: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
    pub(crate) admin: Option<bool>,
}

/// Who may reach the admin listener.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Admin {
    pub(crate) allow_remote: bool,
    pub(crate) hosts: Vec<String>,
}

/// Which web pages may call the service from a browser.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Cors {
    pub(crate) allow_origins: Vec<FromText<Origin>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Limits {
    pub(crate) connections: Option<AtLeast<1>>,
    pub(crate) in_flight: Option<AtLeast<1>>,
    pub(crate) body_bytes: Option<AtLeast<16>>,
    pub(crate) batch: Option<AtLeast<1>>,
    pub(crate) batch_bytes: Option<AtLeast<16>>,
    pub(crate) head_bytes: Option<AtLeast<512>>,
    pub(crate) profile_url_chars: Option<AtLeast<16>>,
    pub(crate) head_timeout: Option<Span>,
    pub(crate) idle_timeout: Option<Span>,
    pub(crate) body_timeout: Option<Span>,
    pub(crate) stop_timeout: Option<Span>,
    rate: Option<FromText<Rate>>,
    pub(crate) burst: Option<AtLeast<1>>,
    pub(crate) quota: Option<FromText<Quota>>,
}

impl Limits {
    pub(crate) fn rate(&self) -> Option<Rate> {
        let rate = self.rate.as_ref()?.0;
        let burst = self.burst.and_then(|burst| u32::try_from(burst.0).ok());
        Some(Rate { burst: burst.unwrap_or(rate.burst), ..rate })
    }
}

/// Limits per client address, and the proxies that name clients.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Clients {
    connections: Option<AtLeast<1>>,
    failed_authorizations: Option<FromText<Rate>>,
    misses: Option<FromText<Rate>>,
    proxies: Vec<FromText<AddressRange>>,
    proxy_header: Option<FromText<ProxyHeader>>,
}

impl Clients {
    pub(crate) fn limits(&self) -> ClientLimits {
        let ranges = self.proxies.iter().map(|range| range.0).collect();
        ClientLimits {
            connections: self.connections.map(|connections| connections.0),
            failed_authorizations: self.failed_authorizations.as_ref().map(|rate| rate.0),
            misses: self.misses.as_ref().map(|rate| rate.0),
            proxies: self.proxy_header.as_ref().map(|header| Proxies { ranges, header: header.0 }),
        }
    }

    /// A setting that needs another one, and what to do.
    pub(super) fn incomplete(&self) -> Option<(&'static str, &'static str)> {
        match (self.proxies.is_empty(), &self.proxy_header) {
            (false, None) => Some((
                "clients.proxies",
                "also set `proxy_header` to the header in which your proxies name the client, \"forwarded\" or \
                 \"x-forwarded-for\"; the proxies must set it themselves, because the other one may come from the client",
            )),
            (true, Some(_)) => Some((
                "clients.proxy_header",
                "also list the addresses of your proxies in `proxies`; the header counts only if it comes from one of them",
            )),
            _ => None,
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Log {
    pub(crate) level: Option<LogLevel>,
    pub(crate) format: Option<LogFormat>,
    pub(crate) file: Option<PathBuf>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Audit {
    pub(crate) sync: Option<AuditSync>,
    pub(crate) segment_bytes: Option<AtLeast<4096>>,
    pub(crate) keep: Option<FromText<Keep>>,
    pub(crate) epoch: Option<FromText<Interval>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Retention {
    pub(crate) sweep_every: Option<FromText<Interval>>,
    pub(crate) undo: Option<Span>,
}

/// How this machine takes part in a cluster.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Cluster {
    pub(crate) lease: Option<FromText<LeaseTime>>,
    pub(crate) patience: Option<FromText<Interval>>,
    pub(crate) name: Option<FromText<NodeName>>,
}

impl Cluster {
    /// The first of its settings that the file has.
    pub(crate) fn first_set(&self) -> Option<&'static str> {
        let set = [
            ("cluster.lease", self.lease.is_some()),
            ("cluster.patience", self.patience.is_some()),
            ("cluster.name", self.name.is_some()),
        ];
        set.into_iter().find(|(_, is_set)| *is_set).map(|(name, _)| name)
    }
}

/// A file that contains keys, instead of `keys/` in the data directory.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Keys {
    pub(crate) digest: Option<PathBuf>,
}

/// Which built-in networks are enabled.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct BuiltIn {
    linkedin: Option<bool>,
    xing: Option<bool>,
}

/// A network that the operator defines.
#[derive(Debug, Deserialize)]
#[serde(try_from = "Written")]
pub(super) struct Own(pub(super) Network);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: String,
    host: String,
    route: String,
    #[serde(default)]
    more_routes: Vec<String>,
    subdomains: Option<Vec<String>>,
    #[serde(default)]
    country_subdomains: bool,
    #[serde(default)]
    case_sensitive: bool,
    #[serde(default)]
    reserved: Vec<String>,
}

impl TryFrom<Written> for Own {
    type Error = contactd_core::NetworkError;

    fn try_from(written: Written) -> Result<Self, Self::Error> {
        let mut network = Network::new(&written.name, &written.host, &written.route)?;
        for route in &written.more_routes {
            network.add_route(route)?;
        }
        if let Some(subdomains) = &written.subdomains {
            network.set_subdomains(subdomains)?;
        }
        network.set_country_subdomains(written.country_subdomains);
        network.set_case(if written.case_sensitive { Case::Keep } else { Case::Lower });
        network.reserve(&written.reserved);
        Ok(Self(network))
    }
}

impl File {
    /// The enabled networks: the built-in ones that are not switched off, and the operator's own.
    ///
    /// An error comes with the byte offset in the file where the network begins.
    pub(crate) fn networks(&self) -> Result<Networks, (usize, NetworkError)> {
        let mut networks = Networks::built_in();
        for (name, on) in [("linkedin", self.networks.linkedin), ("xing", self.networks.xing)] {
            if on == Some(false) {
                networks.remove(name);
            }
        }
        for own in &self.network {
            networks.add(own.get_ref().0.clone()).map_err(|error| (own.span().start, error))?;
        }
        if let Some(chars) = self.limits.profile_url_chars {
            networks.set_max_chars(chars.0);
        }
        Ok(networks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_is_all_comments_and_every_setting_in_it_parses() {
        let file: File = toml::from_str(EXAMPLE).expect("the example parses");
        assert!(file.data.is_none() && file.serve.listen.is_none(), "it changes nothing");
        let uncommented: String = EXAMPLE
            .lines()
            .map(|line| match line.strip_prefix("# ") {
                Some(setting) if setting.contains(" = ") || setting.starts_with('[') => {
                    format!("{setting}\n")
                }
                _ => "\n".to_owned(),
            })
            .collect();
        let file: File = toml::from_str(&uncommented).expect("its settings parse");
        let defaults = contactd_server::Settings::default();
        assert_eq!(file.limits.body_bytes, Some(AtLeast(defaults.max_body)));
        assert_eq!(file.limits.idle_timeout, Some(Span(defaults.idle_timeout)));
        assert_eq!(file.limits.in_flight, Some(AtLeast(defaults.max_in_flight)));
        assert_eq!((file.clients.limits().connections, file.clients.incomplete()), (Some(100), None));
        assert_eq!(file.audit.sync, Some(AuditSync::default()));
        assert_eq!(file.networks().expect("networks").iter().count(), 3);
    }

    #[test]
    fn invalid_settings_are_refused() {
        for text in [
            "dta = \"x\"",
            "[serve]\nlisten = 8080",
            "[limits]\nrate = \"fast\"",
            "[limits]\nhead_timeout = \"10\"",
            "[limits]\nconnections = 0",
            "[limits]\nhead_bytes = 1",
            "[clients]\nconnections = 0",
            "[clients]\nmisses = \"600\"",
            "[clients]\nproxies = [\"10.0.0.1\", \"0.0.0.0/0\"]",
            "[clients]\nproxy_header = \"x-real-ip\"",
            "[serve]\nworkers = 0",
            "[serve]\nbase_path = \"contacts\"",
            "public_url = \"contacts.example.com\"",
            "store = \"postgres://localhost\"",
            "store = \"mysql://ada@localhost/contacts\"",
            "[cluster]\nlease = \"11m\"",
            "[cluster]\nlease = \"0s\"",
            "[cluster]\nname = \"\"",
            "[audit]\nsync = \"never\"",
            "[audit]\nkeep = \"long\"",
            "[audit]\nkeep = \"0d\"",
            "[retention]\nsweep_every = \"0s\"",
            "[[network]]\nname = \"p\"\nhost = \"people.example.com\"\nroute = \"/in/{name}\"",
            "[[network]]\nname = \"p\"\nhost = \"Example\"\nroute = \"/in/{slug}\"",
        ] {
            assert!(toml::from_str::<File>(text).is_err(), "{text}");
        }
    }
}
