//! Configuration: flag, then environment, then file, then default. Raw arguments and files
//! become one resolved [`Config`] before anything is done.

mod file;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use contactd_core::{Networks, Quota, Rate};
use contactd_server::Settings;
use serde::Deserialize;

pub(crate) use file::EXAMPLE;
use file::File;

use crate::cli::{Everywhere, ServeArgs};

/// Where the configuration is looked for if nobody says.
const DEFAULT_FILE: &str = "contactd.toml";
const DEFAULT_DATA: &str = "./contactd-data";
const DEFAULT_LISTEN: &str = "127.0.0.1:8080";
const DEFAULT_ADMIN_LISTEN: &str = "127.0.0.1:8081";

/// What every command needs.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) data: PathBuf,
    /// Whether someone chose the data directory, or it is the default.
    pub(crate) data_is_chosen: bool,
    pub(crate) networks: Networks,
    file: File,
}

/// What `serve` needs besides.
#[derive(Debug)]
pub(crate) struct ServeConfig {
    pub(crate) listen: SocketAddr,
    pub(crate) admin_listen: SocketAddr,
    pub(crate) settings: Settings,
    pub(crate) default_rate: Option<Rate>,
    pub(crate) default_quota: Option<Quota>,
    pub(crate) log: LogConfig,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LogConfig {
    pub(crate) level: LogLevel,
    pub(crate) format: LogFormat,
}

/// How much is logged. No level logs personal data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogLevel {
    Error,
    Warn,
    #[default]
    Info,
    Debug,
    Trace,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    /// Human on a terminal, JSON elsewhere.
    #[default]
    Auto,
    Human,
    Json,
}

/// The file that counts: the one named, or the default one if it is there.
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
        check_store(everywhere.store.as_deref().or(file.store.as_deref()))?;
        let chosen = everywhere.data.clone().or_else(|| file.data.clone());
        Ok(Self {
            data_is_chosen: chosen.is_some(),
            data: chosen.unwrap_or_else(|| PathBuf::from(DEFAULT_DATA)),
            networks: file.networks()?,
            file,
        })
    }

    /// Whether `serve` could go by it.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        self.serve(&ServeArgs::default()).map(|_| ())
    }

    /// Resolves what `serve` needs besides.
    pub(crate) fn serve(&self, args: &ServeArgs) -> anyhow::Result<ServeConfig> {
        let (serve, limits, log) = (&self.file.serve, &self.file.limits, &self.file.log);
        let defaults = Settings::default();
        let address = |flag: Option<&String>, file: Option<&String>, default: &str| {
            let text = flag.or(file).map_or(default, String::as_str);
            text.parse::<SocketAddr>().with_context(|| {
                format!("`{text}` is not an address to listen on: write it like 127.0.0.1:8080")
            })
        };
        let settings = Settings {
            base_path: base_path(
                args.base_path.as_deref().or(serve.base_path.as_deref()).unwrap_or_default(),
            )?,
            workers: args.workers.or(serve.workers).map_or(defaults.workers, usize::from),
            max_connections: limits.connections.unwrap_or(defaults.max_connections),
            max_in_flight: limits.in_flight.unwrap_or(defaults.max_in_flight),
            max_body: limits.body_bytes.unwrap_or(defaults.max_body),
            max_head: limits.head_bytes.unwrap_or(defaults.max_head),
            head_timeout: limits.head_timeout.map_or(defaults.head_timeout, |span| span.0),
            idle_timeout: limits.idle_timeout.map_or(defaults.idle_timeout, |span| span.0),
            body_timeout: limits.body_timeout.map_or(defaults.body_timeout, |span| span.0),
            stop_timeout: limits.stop_timeout.map_or(defaults.stop_timeout, |span| span.0),
            access_log: args.access_log || serve.access_log.unwrap_or(defaults.access_log),
        };
        Ok(ServeConfig {
            listen: address(args.listen.as_ref(), serve.listen.as_ref(), DEFAULT_LISTEN)?,
            admin_listen: address(
                args.admin_listen.as_ref(),
                serve.admin_listen.as_ref(),
                DEFAULT_ADMIN_LISTEN,
            )?,
            settings,
            default_rate: limits.rate(),
            default_quota: limits.quota(),
            log: LogConfig {
                level: args.log_level.or(log.level).unwrap_or_default(),
                format: args.log_format.or(log.format).unwrap_or_default(),
            },
        })
    }
}

/// Reads a file, or says what is wrong with it and on which line.
pub(crate) fn read(path: &Path) -> anyhow::Result<File> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the configuration {}", path.display()))?;
    let file: File = toml::from_str(&text).map_err(|error| {
        let line =
            error.span().map_or(1, |span| 1 + text[..span.start.min(text.len())].matches('\n').count());
        anyhow::anyhow!("{}, line {line}: {}", path.display(), error.message())
    })?;
    file.networks().with_context(|| format!("{}", path.display()))?;
    Ok(file)
}

fn check_store(store: Option<&str>) -> anyhow::Result<()> {
    match store {
        None | Some("sqlite" | "sqlite:") => Ok(()),
        Some(url) if url.starts_with("postgres") => {
            bail!("this version keeps its data in SQLite only; leave --store out, or say --store sqlite")
        }
        Some(_) => bail!("--store has to be `sqlite`, which keeps its files in the data directory"),
    }
}

/// Empty, or `/` and segments without a slash at the end.
fn base_path(text: &str) -> anyhow::Result<String> {
    let path = text.trim_end_matches('/');
    let is_segment = |segment: &str| {
        !segment.is_empty()
            && segment.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._~".contains(&b))
            && segment.bytes().any(|b| b != b'.')
    };
    let is_good =
        path.is_empty() || path.strip_prefix('/').is_some_and(|rest| rest.split('/').all(is_segment));
    if !is_good {
        bail!("`{text}` is not a base path: write it like /contacts");
    }
    Ok(path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_path_is_empty_or_begins_with_a_slash() {
        assert_eq!(base_path("/").ok().as_deref(), Some(""));
        assert_eq!(base_path("/contacts/v1/").ok().as_deref(), Some("/contacts/v1"));
        for bad in ["contacts", "//x", "/a//b", "/a b", "/../x", "/é"] {
            assert!(base_path(bad).is_err(), "{bad}");
        }
    }
}
