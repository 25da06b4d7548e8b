//! Configuration: flag, then environment, then file, then default. Raw arguments and files
//! become one resolved [`Config`] before a command runs.

mod file;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use contactd_core::{Lifetime, Networks, Quota, Rate, Span};
use contactd_server::Settings;

pub(crate) use file::EXAMPLE;
use file::File;

use crate::cli::{Everywhere, ServeArgs};
use crate::keys::{KeySource, KeySources};
use crate::misuse::Misuse;
use crate::setting::{AuditSync, LogFormat, LogLevel};

/// The configuration file that is used if no other is given.
const DEFAULT_FILE: &str = "contactd.toml";
const DEFAULT_DATA: &str = "./contactd-data";
const DEFAULT_SWEEP: Duration = Duration::from_secs(60);
/// How long imports can be undone.
const DEFAULT_UNDO: Duration = Duration::from_secs(7 * 86_400);
pub(crate) const DEFAULT_SEGMENT: u64 = 64 << 20;
const DEFAULT_EPOCH: Duration = Duration::from_secs(3600);
const DEFAULT_LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);
const DEFAULT_ADMIN_LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8081);

/// What every command needs.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) data: PathBuf,
    /// Whether the data directory was set on the command line, and not in the environment or a file.
    pub(crate) data_is_flag: bool,
    pub(crate) networks: Networks,
    pub(crate) keys: KeySources,
    /// How long imports can be undone.
    pub(crate) undo_for: Duration,
    file: File,
}

/// What `serve` needs in addition.
#[derive(Debug)]
pub(crate) struct ServeConfig {
    pub(crate) listen: SocketAddr,
    pub(crate) admin_listen: SocketAddr,
    /// Names that the admin listener answers to, besides IP addresses and loopback names.
    pub(crate) admin_hosts: Vec<String>,
    pub(crate) settings: Settings,
    pub(crate) default_rate: Option<Rate>,
    pub(crate) default_quota: Option<Quota>,
    pub(crate) log: LogConfig,
    pub(crate) audit: AuditConfig,
    /// How often details that have expired or are too old are removed.
    pub(crate) sweep_every: Duration,
}

/// The journal settings of `serve`.
#[derive(Clone, Debug)]
pub(crate) struct AuditConfig {
    pub(crate) sync: AuditSync,
    pub(crate) segment_bytes: u64,
    /// How long lines are kept; for ever if `None`.
    pub(crate) keep: Option<Duration>,
    /// How long one key signs.
    pub(crate) epoch: Duration,
    /// The settings whose changes are put on record: name and value.
    pub(crate) noted: Vec<(String, String)>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LogConfig {
    pub(crate) level: LogLevel,
    pub(crate) format: LogFormat,
}

/// The file that is used: the one given, or the default one if it exists.
pub(crate) fn file_of(everywhere: &Everywhere) -> Option<PathBuf> {
    everywhere.config.clone().or_else(|| Some(PathBuf::from(DEFAULT_FILE)).filter(|file| file.exists()))
}

impl Config {
    /// Resolves what every command needs.
    pub(crate) fn resolve(everywhere: &Everywhere) -> anyhow::Result<Self> {
        let file = match file_of(everywhere) {
            Some(path) => read(&path)?,
            None => File::default(),
        };
        let chosen = everywhere.data.clone().or_else(|| file.data.clone());
        Ok(Self {
            data_is_flag: everywhere.data_is_flag,
            data: chosen.unwrap_or_else(|| PathBuf::from(DEFAULT_DATA)),
            networks: file.networks().map_err(|(_, error)| error)?,
            keys: KeySources {
                digest: key_source("CONTACTD_DIGEST_KEYS", file.keys.digest.as_deref()),
                audit: key_source("CONTACTD_AUDIT_KEY", file.keys.audit.as_deref()),
            },
            undo_for: file.retention.undo.map_or(DEFAULT_UNDO, |Span(undo)| undo),
            file,
        })
    }

    /// Resolves what `serve` needs in addition. Refuses an admin listener that other machines can reach, unless the
    /// configuration allows it.
    pub(crate) fn serve(&self, args: &ServeArgs) -> anyhow::Result<ServeConfig> {
        let (serve, limits, log) = (&self.file.serve, &self.file.limits, &self.file.log);
        let defaults = Settings::default();
        let settings = Settings {
            base_path: args.base_path.clone().or_else(|| serve.base_path()).unwrap_or_default().0,
            workers: args
                .workers
                .map(usize::from)
                .or(serve.workers.map(|workers| workers.0))
                .unwrap_or(defaults.workers),
            max_connections: limits.connections.map_or(defaults.max_connections, |least| least.0),
            max_in_flight: limits.in_flight.map_or(defaults.max_in_flight, |least| least.0),
            max_body: limits.body_bytes.map_or(defaults.max_body, |least| least.0),
            max_head: limits.head_bytes.map_or(defaults.max_head, |least| least.0),
            head_timeout: limits.head_timeout.map_or(defaults.head_timeout, |span| span.0),
            idle_timeout: limits.idle_timeout.map_or(defaults.idle_timeout, |span| span.0),
            body_timeout: limits.body_timeout.map_or(defaults.body_timeout, |span| span.0),
            stop_timeout: limits.stop_timeout.map_or(defaults.stop_timeout, |span| span.0),
            audit_patience: contactd_journal::PATIENCE,
            access_log: args.access_log || serve.access_log.unwrap_or(defaults.access_log),
        };
        let admin = args.admin_listen.or(serve.admin_listen());
        let admin_listen = admin.map_or(DEFAULT_ADMIN_LISTEN, |listen| listen.0);
        if !admin_listen.ip().to_canonical().is_loopback() && !self.file.admin.allow_remote {
            return Err(Misuse(format!(
                "--admin-listen {admin_listen} can be reached from other machines, and the admin listener asks for no password. \
                 Choose a loopback address such as 127.0.0.1:8081, or set `allow_remote = true` under [admin] in the \
                 configuration file"
            ))
            .into());
        }
        Ok(ServeConfig {
            listen: args.listen.or(serve.listen()).map_or(DEFAULT_LISTEN, |listen| listen.0),
            admin_listen,
            admin_hosts: self.file.admin.hosts.clone(),
            settings,
            audit: AuditConfig {
                sync: args.audit_sync.or(self.file.audit.sync).unwrap_or_default(),
                segment_bytes: self.file.audit.segment_bytes.map_or(DEFAULT_SEGMENT, |bytes| bytes.0 as u64),
                keep: match self.file.audit.keep.as_ref().map(|keep| keep.0.0) {
                    Some(Lifetime::For(time)) => Some(time),
                    Some(Lifetime::Forever) | None => None,
                },
                epoch: self.file.audit.epoch.as_ref().map_or(DEFAULT_EPOCH, |epoch| epoch.0.0),
                noted: self.noted(args),
            },
            sweep_every: self.file.retention.sweep_every.as_ref().map_or(DEFAULT_SWEEP, |pause| pause.0.0),
            default_rate: limits.rate(),
            default_quota: limits.quota(),
            log: LogConfig {
                level: args.log_level.or(log.level).unwrap_or_default(),
                format: args.log_format.or(log.format).unwrap_or_default(),
            },
        })
    }
}

impl Config {
    /// The settings that decide what is disclosed, recorded and kept.
    fn noted(&self, args: &ServeArgs) -> Vec<(String, String)> {
        let file = &self.file;
        let networks: Vec<&str> = self.networks.iter().map(contactd_core::Network::name).collect();
        let sync = args.audit_sync.or(file.audit.sync).unwrap_or_default();
        [
            ("audit.sync", format!("{sync:?}")),
            ("audit.keep", format!("{:?}", file.audit.keep)),
            ("audit.epoch", format!("{:?}", file.audit.epoch)),
            ("retention.sweep_every", format!("{:?}", file.retention.sweep_every)),
            ("retention.undo", format!("{:?}", self.undo_for)),
            ("limits.rate", format!("{:?}", file.limits.rate())),
            ("limits.quota", format!("{:?}", file.limits.quota())),
            ("admin.allow_remote", file.admin.allow_remote.to_string()),
            ("admin.hosts", file.admin.hosts.join(" ")),
            ("networks", networks.join(" ")),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .to_vec()
    }
}

/// Where a key comes from: the environment, a file, or the data directory.
#[expect(clippy::disallowed_methods, reason = "secrets are not flags, so clap does not read them")]
fn key_source(variable: &str, file: Option<&Path>) -> KeySource {
    match (std::env::var(variable), file) {
        (Ok(text), _) if !text.trim().is_empty() => KeySource::Text(text),
        (_, Some(file)) => KeySource::File(file.to_owned()),
        _ => KeySource::DataDir,
    }
}

/// Reads a file. An error says what is wrong and on which line.
pub(crate) fn read(path: &Path) -> anyhow::Result<File> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the configuration {}", path.display()))?;
    let wrong = |at: usize, what: String| {
        let line = 1 + text[..at.min(text.len())].matches('\n').count();
        anyhow::anyhow!("{}, line {line}: {what}", path.display())
    };
    let file: File = toml::from_str(&text)
        .map_err(|error| wrong(error.span().map_or(0, |span| span.start), error.message().to_owned()))?;
    match file.networks() {
        Ok(_) => Ok(file),
        Err((at, error)) => Err(wrong(at, error.to_string())),
    }
}
