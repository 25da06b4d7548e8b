//! Configuration: flag, then environment, then file, then default. Raw arguments and files
//! become one resolved [`Config`] before a command runs.

mod check;
mod file;
mod origin;
#[cfg(test)]
mod page;
mod supervisor;
mod tls;

use std::fmt::Display;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum as _;
use contactd_core::{DefaultLimits, Lifetime, Networks, Span};
use contactd_server::{Origin, Settings};
use contactd_tls::PairFiles;

pub(crate) use check::ConfigError;
use check::check;
pub(crate) use file::EXAMPLE;
use file::File;
pub(crate) use origin::Origins;
pub(crate) use supervisor::{Sockets, Supervisor};
pub(crate) use tls::read_pair;

use crate::cli::{Everywhere, ServeArgs};
use crate::keys::KeySource;
use crate::memory;
use crate::misuse::Misuse;
use crate::setting::{AuditSync, LogFormat, LogLevel, StoreAt, StoreText};

/// The configuration file that is used if no other is given.
const DEFAULT_FILE: &str = "contactd.toml";
const DEFAULT_DATA: &str = "./contactd-data";
const DEFAULT_SWEEP: Duration = Duration::from_secs(60);
/// How long imports can be undone.
const DEFAULT_UNDO: Duration = Duration::from_secs(7 * 86_400);
pub(crate) const DEFAULT_SEGMENT: u64 = 64 << 20;
const DEFAULT_EPOCH: Duration = Duration::from_secs(3600);
const DEFAULT_LEASE: Duration = Duration::from_secs(60);
const DEFAULT_PATIENCE: Duration = Duration::from_secs(60);
const DEFAULT_LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);
const DEFAULT_ADMIN_LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8081);

/// What every command needs.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) data: PathBuf,
    /// Whether the data directory was set at all.
    pub(crate) data_is_given: bool,
    /// Whether the data directory was set on the command line, and not in the environment or a file.
    pub(crate) data_is_flag: bool,
    pub(crate) store: StoreAt,
    /// Whether the store was set at all.
    store_is_given: bool,
    pub(crate) cluster: ClusterConfig,
    pub(crate) networks: Networks,
    pub(crate) keys: KeySource,
    /// How long imports can be undone.
    pub(crate) undo_for: Duration,
    file: File,
}

/// How this machine takes part in a cluster.
#[derive(Clone, Debug)]
pub(crate) struct ClusterConfig {
    /// How long a node may serve without the database.
    pub(crate) lease: Duration,
    /// How long to wait for a database that cannot be reached.
    pub(crate) patience: Duration,
    /// The name of this node in lists.
    pub(crate) name: String,
}

impl ClusterConfig {
    /// How long a server waits in all for a database that cannot be reached, and how long for each answer: as long as several attempts fit
    /// into its lease.
    pub(crate) fn deadlines_of_server(&self) -> (Duration, Duration) {
        (SERVER_PATIENCE.min(self.patience), self.lease / 6)
    }

    /// The same for a command.
    pub(crate) fn deadlines(&self) -> (Duration, Duration) {
        (self.patience, self.patience / 6)
    }
}

/// A server goes on trying by itself, and may not be held up when it stops.
const SERVER_PATIENCE: Duration = Duration::from_secs(3);

/// What `serve` needs in addition.
#[derive(Debug)]
pub(crate) struct ServeConfig {
    pub(crate) listen: SocketAddr,
    pub(crate) admin_listen: SocketAddr,
    /// Whether other machines may reach the admin listener.
    pub(crate) allow_remote: bool,
    /// Names that the admin listener answers to, besides IP addresses and loopback names.
    pub(crate) admin_hosts: Vec<String>,
    /// Whether the admin listener speaks TLS too, if the public one does.
    pub(crate) admin_tls: bool,
    pub(crate) audit: AuditConfig,
    pub(crate) log_format: LogFormat,
    pub(crate) reloadable: Reloadable,
    /// Every setting, to find out what has changed.
    pub(crate) named: Vec<Named>,
}

/// Refuses an address of the admin listener that other machines can reach, unless the configuration allows it.
pub(crate) fn check_admin(what: &str, address: SocketAddr, allow_remote: bool) -> anyhow::Result<()> {
    if address.ip().to_canonical().is_loopback() || allow_remote {
        return Ok(());
    }
    Err(Misuse(format!(
        "{what} {address} can be reached from other machines, and its /metrics asks for no password. \
         Choose a loopback address such as 127.0.0.1:8081, or set `allow_remote = true` under [admin] in the \
         configuration file"
    ))
    .into())
}

/// What a reload replaces in a running server, all of it or nothing.
#[derive(Clone, Debug)]
pub(crate) struct Reloadable {
    /// Those of the public listener. The server keeps its base path and its workers.
    pub(crate) settings: Settings,
    pub(crate) networks: Networks,
    /// The certificate and the key; plain HTTP if `None`. Whether there are any stays as it was at the start.
    pub(crate) tls: Option<PairFiles>,
    pub(crate) token_limits: DefaultLimits,
    /// How long the journal's lines are kept; for ever if `None`.
    pub(crate) audit_keep: Option<Duration>,
    /// How often details that have expired or are too old are removed.
    pub(crate) sweep_every: Duration,
    pub(crate) log: LogConfig,
}

/// The journal settings of `serve` that stay as they were at the start.
#[derive(Clone, Debug)]
pub(crate) struct AuditConfig {
    pub(crate) sync: AuditSync,
    pub(crate) segment_bytes: u64,
    /// How long one key signs.
    pub(crate) epoch: Duration,
}

/// How much is logged, and where.
#[derive(Clone, Debug, Default)]
pub(crate) struct LogConfig {
    pub(crate) level: LogLevel,
    /// Stderr if `None`.
    pub(crate) file: Option<PathBuf>,
}

/// A setting of `serve`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) name: &'static str,
    /// Its value as text. That of a noted setting is stored, so it is written as in the file, with the default if it is not set.
    pub(crate) value: String,
    /// Whether a running server can take over a new value.
    pub(crate) reloads: bool,
    /// Whether a change is put on record: the setting decides what is disclosed, recorded or kept.
    pub(crate) is_noted: bool,
}

/// The file that is used: the one given, or the default one if it exists.
pub(crate) fn file_of(everywhere: &Everywhere) -> Option<PathBuf> {
    everywhere.config.clone().or_else(|| Some(PathBuf::from(DEFAULT_FILE)).filter(|file| file.exists()))
}

/// The format of log lines, also if the configuration has errors: as far as it can be known.
pub(crate) fn log_format(everywhere: &Everywhere, args: &ServeArgs) -> LogFormat {
    let of_file = || {
        let text = std::fs::read_to_string(file_of(everywhere)?).ok()?;
        let table = toml::from_str::<toml::Table>(&text).ok()?;
        table.get("log")?.get("format")?.clone().try_into::<LogFormat>().ok()
    };
    args.log_format.or_else(of_file).unwrap_or_default()
}

/// Every error in the configuration with which `serve` would run: the file, the environment, and what does not fit together.
/// Also where the settings come from.
pub(crate) fn errors(everywhere: &Everywhere) -> (Vec<ConfigError>, Origins) {
    let path = file_of(everywhere);
    let mut errors = path.as_deref().and_then(|path| check(path).err()).unwrap_or_default();
    let (args, set) = origin::serve_args_from_environment().unwrap_or_else(|error| {
        errors.push(error);
        (ServeArgs::default(), Vec::new())
    });
    if !errors.is_empty() {
        return (errors, Origins::default());
    }
    let file = path.as_ref().map_or_else(|| "the environment".to_owned(), |path| path.display().to_string());
    let mut add = |line, setting, error: &anyhow::Error| {
        errors.push(ConfigError { file: file.clone(), line, setting, message: format!("{error:#}") });
    };
    match Config::resolve(everywhere) {
        Ok(config) => {
            let origins = Origins::of(everywhere, &config.keys, &set, path.as_deref());
            let admin = config.admin_listen(&args).err().map(|error| ("serve.admin_listen", error));
            let forgotten = config.forgotten_store().map(|(name, error)| (name, error.into()));
            for (name, error) in admin.into_iter().chain(config.tls_error(&args)).chain(forgotten) {
                let line = path.as_deref().and_then(|path| check::line_of(path, name));
                add(line, line.map(|_| name.to_owned()), &error);
            }
            (errors, origins)
        }
        Err(error) => {
            add(None, None, &error);
            (errors, Origins::default())
        }
    }
}

impl Config {
    /// Resolves what every command needs.
    pub(crate) fn resolve(everywhere: &Everywhere) -> anyhow::Result<Self> {
        let file = match file_of(everywhere) {
            Some(path) => check(&path).map_err(|errors| check::summary(&path, &errors))?,
            None => File::default(),
        };
        let chosen = everywhere.data.clone().or_else(|| file.data.clone());
        let store = match &everywhere.store {
            Some(StoreText(text)) if !text.is_empty() => {
                Some(text.parse().map_err(|error| Misuse(format!("--store: {error}")))?)
            }
            _ => file.store.as_ref().map(|store| store.0.clone()),
        };
        Ok(Self {
            data_is_flag: everywhere.data_is_flag,
            data_is_given: chosen.is_some(),
            store_is_given: store.is_some(),
            store: store.unwrap_or(StoreAt::DataDir),
            cluster: ClusterConfig {
                lease: file.cluster.lease.as_ref().map_or(DEFAULT_LEASE, |lease| lease.0.0),
                patience: file.cluster.patience.as_ref().map_or(DEFAULT_PATIENCE, |patience| patience.0.0),
                name: file.cluster.name.as_ref().map_or_else(host_name, |name| name.0.0.clone()),
            },
            data: chosen.unwrap_or_else(|| PathBuf::from(DEFAULT_DATA)),
            networks: file.networks().map_err(|(_, error)| error)?,
            keys: key_source("CONTACTD_DIGEST_KEYS", file.keys.digest.as_deref()),
            undo_for: file.retention.undo.map_or(DEFAULT_UNDO, |Span(undo)| undo),
            file,
        })
    }

    /// Up to which size the lookup table is read into memory.
    pub(crate) fn table_bytes(&self) -> u64 {
        self.file.serve.table_bytes.map_or_else(|| memory::available() / 4, |bytes| bytes.0 as u64)
    }

    /// Where the admin listener listens. Refuses an address that other machines can reach, unless the configuration allows it.
    fn admin_listen(&self, args: &ServeArgs) -> anyhow::Result<SocketAddr> {
        let chosen = args.admin_listen.or(self.file.serve.admin_listen.map(|text| text.0));
        let address = chosen.map_or(DEFAULT_ADMIN_LISTEN, |listen| listen.0);
        check_admin("--admin-listen", address, self.file.admin.allow_remote)?;
        Ok(address)
    }

    /// What is wrong if there are settings of a cluster and no store: a server would serve an empty store of its own. Also the first
    /// of these settings.
    fn forgotten_store(&self) -> Option<(&'static str, Misuse)> {
        if self.store_is_given {
            return None;
        }
        let setting = self.file.cluster.first_set()?;
        let what = "there are settings under [cluster], but no store: give the database of the cluster with --store postgres://…, \
             CONTACTD_STORE, or `store` in the configuration file; or write `store = \"sqlite\"` for a server without a cluster";
        Some((setting, Misuse(what.to_owned())))
    }

    /// Resolves what `serve` needs in addition.
    pub(crate) fn serve(&self, args: &ServeArgs) -> anyhow::Result<ServeConfig> {
        // The demonstration has a store of its own.
        if let Some((_, error)) = self.forgotten_store().filter(|_| !args.demo) {
            return Err(error.into());
        }
        let (serve, limits, log) = (&self.file.serve, &self.file.limits, &self.file.log);
        let defaults = Settings::default();
        let settings = Settings {
            base_path: args
                .base_path
                .clone()
                .or_else(|| Some(serve.base_path.as_ref()?.0.clone()))
                .unwrap_or_default(),
            public_url: args.public_url.clone().or_else(|| Some(self.file.public_url.as_ref()?.0.clone())),
            allow_origins: self.file.cors.allow_origins.iter().map(|origin| origin.0.clone()).collect(),
            workers: args
                .workers
                .map(usize::from)
                .or(serve.workers.map(|workers| workers.0))
                .unwrap_or(defaults.workers),
            max_connections: limits.connections.map_or(defaults.max_connections, |least| least.0),
            max_in_flight: limits.in_flight.map_or(defaults.max_in_flight, |least| least.0),
            clients: self.file.clients.limits(),
            max_body: limits.body_bytes.map_or(defaults.max_body, |least| least.0),
            max_batch: limits.batch.map_or(defaults.max_batch, |least| least.0),
            max_batch_body: limits.batch_bytes.map_or(defaults.max_batch_body, |least| least.0),
            max_head: limits.head_bytes.map_or(defaults.max_head, |least| least.0),
            head_timeout: limits.head_timeout.map_or(defaults.head_timeout, |span| span.0),
            idle_timeout: limits.idle_timeout.map_or(defaults.idle_timeout, |span| span.0),
            body_timeout: limits.body_timeout.map_or(defaults.body_timeout, |span| span.0),
            stop_timeout: limits.stop_timeout.map_or(defaults.stop_timeout, |span| span.0),
            audit_patience: contactd_journal::WRITE_TIMEOUT,
            access_log: args.access_log || serve.access_log.unwrap_or(defaults.access_log),
        };
        let listen =
            args.listen.or(serve.listen.map(|text| text.0)).map_or(DEFAULT_LISTEN, |listen| listen.0);
        let admin_listen = self.admin_listen(args)?;
        let audit = AuditConfig {
            sync: args.audit_sync.or(self.file.audit.sync).unwrap_or_default(),
            segment_bytes: self.file.audit.segment_bytes.map_or(DEFAULT_SEGMENT, |bytes| bytes.0 as u64),
            epoch: self.file.audit.epoch.as_ref().map_or(DEFAULT_EPOCH, |epoch| epoch.0.0),
        };
        let reloadable = Reloadable {
            settings,
            networks: self.networks.clone(),
            tls: self.tls(args).map_err(|(_, error)| error)?,
            token_limits: DefaultLimits { rate: limits.rate(), quota: limits.quota.map(|quota| quota.0) },
            audit_keep: self.audit_keep(),
            sweep_every: self.sweep_every(),
            log: LogConfig {
                level: args.log_level.or(log.level).unwrap_or_default(),
                file: args.log_file.clone().or_else(|| log.file.clone()),
            },
        };
        let log_format = args.log_format.or(log.format).unwrap_or_default();
        let mut config = ServeConfig {
            listen,
            admin_listen,
            allow_remote: self.file.admin.allow_remote,
            admin_hosts: self.file.admin.hosts.clone(),
            admin_tls: self.file.tls.admin.unwrap_or(true),
            audit,
            log_format,
            reloadable,
            named: Vec::new(),
        };
        config.named = self.named(&config);
        Ok(config)
    }

    /// Every setting of `serve`, with the value that is used.
    fn named(&self, config: &ServeConfig) -> Vec<Named> {
        let (file, reloadable) = (&self.file, &config.reloadable);
        let (settings, tokens) = (&reloadable.settings, &reloadable.token_limits);
        let origins: Vec<&str> = settings.allow_origins.iter().map(Origin::as_str).collect();
        let clients = &settings.clients;
        let names: Vec<&str> = self.networks.iter().map(contactd_core::Network::name).collect();
        let fixed = |name, value| Named { name, value, reloads: false, is_noted: false };
        let live = |name, value| Named { name, value, reloads: true, is_noted: false };
        let noted = |named: Named| Named { is_noted: true, ..named };
        let [cert, key] = tls::named(reloadable.tls.as_ref());
        // As it is written in the file.
        let sync = config.audit.sync.to_possible_value().map(|value| value.get_name().to_owned());
        let sync = sync.unwrap_or_default();
        let mut all = vec![
            noted(fixed("audit.sync", sync)),
            noted(live("audit.keep", self.audit_keep().map_or("never".to_owned(), as_written))),
            noted(fixed("audit.epoch", as_written(config.audit.epoch))),
            noted(live("retention.sweep_every", as_written(self.sweep_every()))),
            noted(fixed("retention.undo", as_written(self.undo_for))),
            noted(live("limits.rate", or_none(tokens.rate))),
            noted(live("limits.burst", or_none(file.limits.burst.map(|burst| burst.0)))),
            noted(live("limits.quota", or_none(tokens.quota))),
            noted(fixed("admin.allow_remote", file.admin.allow_remote.to_string())),
            noted(fixed("admin.hosts", file.admin.hosts.join(" "))),
            noted(live("cors.allow_origins", origins.join(" "))),
            noted(live("networks", names.join(" "))),
            live("network", format!("{:?}", self.networks.iter().collect::<Vec<_>>())),
            live("limits.profile_url_chars", format!("{:?}", file.limits.profile_url_chars)),
            live("limits.connections", settings.max_connections.to_string()),
            live("limits.in_flight", settings.max_in_flight.to_string()),
            live("limits.body_bytes", settings.max_body.to_string()),
            live("limits.batch", settings.max_batch.to_string()),
            live("limits.batch_bytes", settings.max_batch_body.to_string()),
            live("limits.head_bytes", settings.max_head.to_string()),
            live("limits.head_timeout", format!("{:?}", settings.head_timeout)),
            live("limits.idle_timeout", format!("{:?}", settings.idle_timeout)),
            live("limits.body_timeout", format!("{:?}", settings.body_timeout)),
            live("limits.stop_timeout", format!("{:?}", settings.stop_timeout)),
            live("clients.connections", format!("{:?}", clients.connections)),
            live("clients.failed_authorizations", format!("{:?}", clients.failed_authorizations)),
            live("clients.misses", format!("{:?}", clients.misses)),
            live("clients.proxies", format!("{:?}", clients.proxies.as_ref().map(|proxies| &proxies.ranges))),
            live(
                "clients.proxy_header",
                format!("{:?}", clients.proxies.as_ref().map(|proxies| proxies.header)),
            ),
            live("serve.access_log", settings.access_log.to_string()),
            live(cert.0, cert.1),
            live(key.0, key.1),
            live("log.level", format!("{:?}", reloadable.log.level)),
            live("log.file", format!("{:?}", reloadable.log.file)),
            fixed("data", self.data.display().to_string()),
            fixed("serve.listen", config.listen.to_string()),
            fixed("serve.admin_listen", config.admin_listen.to_string()),
            fixed("tls.admin", config.admin_tls.to_string()),
            fixed("serve.base_path", settings.base_path.as_str().to_owned()),
            fixed("public_url", format!("{:?}", settings.public_url)),
            fixed("serve.workers", settings.workers.to_string()),
            fixed("serve.table_bytes", self.table_bytes().to_string()),
            fixed("audit.segment_bytes", config.audit.segment_bytes.to_string()),
            fixed("keys.digest", self.keys.words(Path::new("keys"))),
            fixed("log.format", format!("{:?}", config.log_format)),
        ];
        match &self.store {
            StoreAt::DataDir => all.push(fixed("store", "sqlite".to_owned())),
            StoreAt::Database(url) => all.extend([
                fixed("store", url.to_string()),
                noted(fixed("cluster.lease", as_written(self.cluster.lease))),
                fixed("cluster.patience", format!("{:?}", self.cluster.patience)),
                fixed("cluster.name", self.cluster.name.clone()),
            ]),
        }
        all
    }
}

impl Config {
    /// Whether the store is the database of a cluster.
    pub(crate) const fn is_cluster(&self) -> bool {
        matches!(self.store, StoreAt::Database(_))
    }

    /// Whether the configuration file has a store with a password in its URL.
    pub(crate) fn has_password_in_file(&self) -> bool {
        let store = self.file.store.as_ref().map(|store| &store.0);
        matches!(store, Some(StoreAt::Database(url)) if url.has_password())
    }

    /// How often details that have expired or are too old are removed.
    pub(crate) fn sweep_every(&self) -> Duration {
        self.file.retention.sweep_every.as_ref().map_or(DEFAULT_SWEEP, |pause| pause.0.0)
    }

    /// How long audit lines are kept; for ever if `None`.
    pub(crate) fn audit_keep(&self) -> Option<Duration> {
        match self.file.audit.keep.as_ref().map(|keep| keep.0.0) {
            Some(Lifetime::For(time)) => Some(time),
            Some(Lifetime::Forever) | None => None,
        }
    }
}

/// A length of time as it is written in the file.
fn as_written(length: Duration) -> String {
    Span(length).to_string()
}

/// A limit as it is written in the file.
fn or_none(limit: Option<impl Display>) -> String {
    limit.map_or("none".to_owned(), |limit| limit.to_string())
}

/// The settings whose changes are put on record: name and value.
pub(crate) fn noted(named: &[Named]) -> Vec<(String, String)> {
    let noted = named.iter().filter(|named| named.is_noted);
    noted.map(|Named { name, value, .. }| ((*name).to_owned(), value.clone())).collect()
}

/// The name of this machine.
fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if name.trim().is_empty() { "unnamed".to_owned() } else { name.trim().chars().take(64).collect() }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn noted_of(text: &str) -> Vec<String> {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), text).expect("writes");
        let everywhere = Everywhere { config: Some(file.path().to_owned()), ..Everywhere::default() };
        let config = Config::resolve(&everywhere).expect("resolves");
        let serve = config.serve(&ServeArgs::default()).expect("resolves");
        noted(&serve.named).into_iter().map(|(name, value)| format!("{name}={value}")).collect()
    }

    // The store remembers these texts: if one changes with the program, a change of the configuration is on record that
    // nobody made.
    #[test]
    fn settings_are_remembered_as_they_are_written_in_the_file() {
        assert_eq!(
            noted_of(""),
            [
                "audit.sync=os",
                "audit.keep=never",
                "audit.epoch=1h",
                "retention.sweep_every=1m",
                "retention.undo=7d",
                "limits.rate=none",
                "limits.burst=none",
                "limits.quota=none",
                "admin.allow_remote=false",
                "admin.hosts=",
                "cors.allow_origins=",
                "networks=linkedin xing",
            ]
        );
        assert_eq!(
            noted_of(
                "store = \"postgres://contactd@127.0.0.1/contacts\"\n\
                 [audit]\nsync = \"disk\"\nkeep = \"90d\"\nepoch = \"30m\"\n\
                 [retention]\nsweep_every = \"90s\"\nundo = \"0s\"\n\
                 [limits]\nrate = \"50/s\"\nburst = 70\nquota = \"1000/day\"\n\
                 [admin]\nallow_remote = true\nhosts = [\"a.example.com\", \"b.example.com\"]\n\
                 [cors]\nallow_origins = [\"https://c.example.com\"]\n\
                 [networks]\nxing = false\n\
                 [cluster]\nlease = \"20s\"\n"
            ),
            [
                "audit.sync=disk",
                "audit.keep=90d",
                "audit.epoch=30m",
                "retention.sweep_every=90s",
                "retention.undo=0s",
                "limits.rate=50/s",
                "limits.burst=70",
                "limits.quota=1000/day",
                "admin.allow_remote=true",
                "admin.hosts=a.example.com b.example.com",
                "cors.allow_origins=https://c.example.com",
                "networks=linkedin",
                "cluster.lease=20s",
            ]
        );
    }
}
