//! Where the database is: `postgres://user:password@host1:5432,host2:5432/name?sslmode=verify-full&sslrootcert=FILE`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use percent_encoding::percent_decode_str;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

/// Where the database is, and how to log in. Printing it leaves the password out.
#[derive(Clone)]
pub struct StoreUrl {
    /// One for each host, to be tried in turn.
    pub(crate) hosts: Vec<Config>,
    /// The certificates that a server's certificate must lead to; `None` without TLS.
    pub(crate) root_cert: Option<PathBuf>,
    shown: String,
}

/// Why a URL is not accepted.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// It is not a URL of PostgreSQL.
    #[error("a store is given as postgres://USER@HOST[:PORT][,HOST…]/DATABASE")]
    NotPostgres,
    /// It cannot be read.
    #[error(
        "the URL of the store cannot be read; it has the form postgres://USER:PASSWORD@HOST:PORT/DATABASE, with \
         other characters than letters and digits percent-encoded"
    )]
    Unreadable,
    /// It names no host or no database.
    #[error("the URL of the store has no {0}")]
    Incomplete(&'static str),
    /// It does not say how to check the server's certificate.
    #[error("{0}")]
    Tls(String),
}

impl FromStr for StoreUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        if !text.starts_with("postgres://") && !text.starts_with("postgresql://") {
            return Err(UrlError::NotPostgres);
        }
        let (url, tls) = TlsParameters::take_from(text)?;
        let whole = Config::from_str(&url).map_err(|_| UrlError::Unreadable)?;
        // A password with an `@` that is not encoded ends there, and the rest of it would be taken for a host.
        let base = text.split_once('?').map_or(text, |(base, _)| base);
        let is_odd =
            |host: &Host| matches!(host, Host::Tcp(name) if name.contains(['@', '?', '/', '#', '&', '=']));
        if base.matches('@').count() > 1 || whole.get_hosts().iter().any(is_odd) {
            return Err(UrlError::Unreadable);
        }
        if whole.get_hosts().is_empty() {
            return Err(UrlError::Incomplete("host"));
        }
        if whole.get_dbname().is_none_or(str::is_empty) {
            return Err(UrlError::Incomplete("database"));
        }
        let root_cert = tls.check(whole.get_hosts())?;
        let hosts = each_host(&whole, root_cert.is_some());
        Ok(Self { shown: shown(&whole), hosts, root_cert })
    }
}

/// The parameters of the URL that we read ourselves.
#[derive(Default)]
struct TlsParameters {
    mode: Option<String>,
    root_cert: Option<PathBuf>,
}

impl TlsParameters {
    /// Takes them out of a URL.
    fn take_from(text: &str) -> Result<(String, Self), UrlError> {
        let Some((base, query)) = text.split_once('?') else { return Ok((text.to_owned(), Self::default())) };
        let mut taken = Self::default();
        let mut others = Vec::new();
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            match parameter.split_once('=') {
                Some(("sslmode", mode)) => taken.mode = Some(mode.to_owned()),
                Some(("sslrootcert", path)) => {
                    let path = percent_decode_str(path).decode_utf8().map_err(|_| UrlError::Unreadable)?;
                    taken.root_cert = Some(path.into_owned().into());
                }
                // We always look for a server that can be written to.
                Some(("target_session_attrs", "read-write" | "primary" | "any")) => {}
                _ => others.push(parameter),
            }
        }
        let url = if others.is_empty() { base.to_owned() } else { format!("{base}?{}", others.join("&")) };
        Ok((url, taken))
    }

    /// The certificates to check against; none without TLS. What is not local needs a decision of the operator.
    fn check(self, hosts: &[Host]) -> Result<Option<PathBuf>, UrlError> {
        let refused = |what: String| Err(UrlError::Tls(what));
        match (self.mode.as_deref(), self.root_cert) {
            (Some("disable"), None) => Ok(None),
            (Some("disable"), Some(_)) => {
                refused("the URL of the store says sslmode=disable and sslrootcert; leave one of them out".to_owned())
            }
            (None | Some("require" | "verify-ca" | "verify-full"), Some(root_cert)) => Ok(Some(root_cert)),
            (None, None) if hosts.iter().all(is_local) => Ok(None),
            (None | Some("require" | "verify-ca" | "verify-full"), None) => refused(
                "the database is on another machine: say in the URL of the store how to check that it is the right one, \
                 with sslrootcert=FILE (certificates in PEM), or sslmode=disable if the network is safe"
                    .to_owned(),
            ),
            (Some(mode), _) => refused(format!(
                "sslmode={mode} is not known; use verify-full with sslrootcert=FILE, or disable"
            )),
        }
    }
}

fn is_local(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => {
            name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
        }
        Host::Unix(_) => true,
    }
}

fn each_host(whole: &Config, is_tls: bool) -> Vec<Config> {
    let ports = whole.get_ports();
    let of_host = |(at, host): (usize, &Host)| {
        let mut config = Config::new();
        match host {
            Host::Tcp(name) => config.host(name),
            Host::Unix(path) => config.host_path(path),
        };
        // One port is for all hosts.
        config.port(ports.get(at).or(ports.first()).copied().unwrap_or(5432));
        whole.get_user().map(|user| config.user(user));
        whole.get_password().map(|password| config.password(password));
        whole.get_dbname().map(|name| config.dbname(name));
        whole.get_options().map(|options| config.options(options));
        config.application_name(whole.get_application_name().unwrap_or("contactd"));
        config.ssl_mode(if is_tls { SslMode::Require } else { SslMode::Disable });
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        config
    };
    whole.get_hosts().iter().enumerate().map(of_host).collect()
}

fn shown(whole: &Config) -> String {
    let ports = whole.get_ports();
    let host = |(at, host): (usize, &Host)| {
        let name = match host {
            Host::Tcp(name) => name.clone(),
            Host::Unix(path) => path.display().to_string(),
        };
        // Whatever comes before it may be a part of a password.
        let name = name.rsplit('@').next().unwrap_or_default();
        match ports.get(at).or(ports.first()) {
            Some(port) => format!("{name}:{port}"),
            None => name.to_owned(),
        }
    };
    let hosts: Vec<String> = whole.get_hosts().iter().enumerate().map(host).collect();
    let user = whole.get_user().map(|user| format!("{user}@")).unwrap_or_default();
    format!("postgres://{user}{}/{}", hosts.join(","), whole.get_dbname().unwrap_or_default())
}

impl StoreUrl {
    /// Whether it has a password.
    pub fn has_password(&self) -> bool {
        self.hosts.iter().any(|host| host.get_password().is_some())
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_password_is_not_shown() {
        let url: StoreUrl = "postgres://ada:secret@localhost:5433,127.0.0.1/contacts".parse().expect("a URL");
        assert_eq!(url.to_string(), "postgres://ada@localhost:5433,127.0.0.1:5432/contacts");
        assert!(!format!("{url:?}").contains("secret"));
        assert_eq!(url.hosts.len(), 2);
    }

    #[test]
    fn a_password_with_characters_that_are_not_encoded_is_refused_and_shown_nowhere() {
        for url in [
            "postgres://ada:S3cr@etPw@127.0.0.1:5432/contacts",
            "postgres://ada:S3cr@e/tPw@127.0.0.1:5432/contacts",
            "postgres://ada:S3/cr@etPw@127.0.0.1:5432/contacts",
            "postgres://ada:S3?cr@etPw@127.0.0.1:5432/contacts",
            "postgres://ada:S3cr@etPw@127.0.0.1/contacts?sslmode=disable",
        ] {
            let error = url.parse::<StoreUrl>().expect_err(url);
            assert_eq!(error, UrlError::Unreadable, "{url}");
            assert!(error.to_string().contains("percent-encoded") && !error.to_string().contains("Pw"));
        }
        let encoded: StoreUrl = "postgres://ada:S3cr%40etPw@127.0.0.1:5432/contacts".parse().expect("a URL");
        assert_eq!(encoded.hosts[0].get_password(), Some(&b"S3cr@etPw"[..]));
        let mut whole = Config::new();
        whole.user("ada").host("etPw@127.0.0.1").port(5432).dbname("contacts");
        assert_eq!(shown(&whole), "postgres://ada@127.0.0.1:5432/contacts");
    }

    #[test]
    fn a_database_elsewhere_needs_a_certificate_or_a_word() {
        let parse = |text: &str| text.parse::<StoreUrl>();
        assert!(matches!(parse("postgres://ada@db.example.com/contacts"), Err(UrlError::Tls(_))));
        assert!(matches!(
            parse("postgres://ada@db.example.com/contacts?sslmode=require"),
            Err(UrlError::Tls(_))
        ));
        assert!(parse("postgres://ada@db.example.com/contacts?sslmode=disable").is_ok());
        let checked =
            parse("postgres://ada@db.example.com/contacts?sslmode=verify-full&sslrootcert=/a%20b.pem");
        assert_eq!(checked.expect("a URL").root_cert, Some("/a b.pem".into()));
    }

    #[test]
    fn what_is_incomplete_is_refused() {
        for text in
            ["redis://localhost/0", "postgres://localhost", "postgres:///contacts", "/var/lib/contactd"]
        {
            assert!(text.parse::<StoreUrl>().is_err(), "{text}");
        }
    }
}
