//! Where settings come from: a flag, the environment, the file.

use std::path::Path;

use clap::parser::ValueSource;
use clap::{Args, FromArgMatches};

use super::KeySource;
use super::check::{ConfigError, lines};
use crate::cli::{Everywhere, ServeArgs};

/// Flags of `serve` that the environment can set too, and their settings.
const SERVE: [(&str, &str); 10] = [
    ("listen", "serve.listen"),
    ("admin_listen", "serve.admin_listen"),
    ("tls_cert", "tls.cert"),
    ("tls_key", "tls.key"),
    ("base_path", "serve.base_path"),
    ("workers", "serve.workers"),
    ("audit_sync", "audit.sync"),
    ("log_level", "log.level"),
    ("log_format", "log.format"),
    ("log_file", "log.file"),
];

/// Which settings come from where. All others have their default.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Origins {
    pub(crate) flags: Vec<String>,
    pub(crate) environment: Vec<String>,
    pub(crate) file: Vec<String>,
}

impl Origins {
    /// Of a command that takes the flags of every command, with what `serve` would find in the environment.
    pub(crate) fn of(
        everywhere: &Everywhere,
        keys: &KeySource,
        serve: &[&'static str],
        file: Option<&Path>,
    ) -> Self {
        let mut origins = Self::default();
        for (name, is_set, is_flag) in [
            ("data", everywhere.data.is_some(), everywhere.data_is_flag),
            ("store", everywhere.store.is_some(), everywhere.store_is_flag),
        ] {
            match (is_set, is_flag) {
                (true, true) => origins.flags.push(name.to_owned()),
                (true, false) => origins.environment.push(name.to_owned()),
                (false, _) => {}
            }
        }
        origins.environment.extend(serve.iter().map(|name| (*name).to_owned()));
        if matches!(keys, KeySource::Text(_)) {
            origins.environment.push("keys.digest".to_owned());
        }
        let text = file.and_then(|file| std::fs::read_to_string(file).ok()).unwrap_or_default();
        let is_overridden =
            |name: &String| origins.flags.contains(name) || origins.environment.contains(name);
        origins.file =
            lines(&text).into_iter().map(|(name, _)| name).filter(|name| !is_overridden(name)).collect();
        origins
    }
}

/// What `serve` would find in the environment, and which settings that are.
pub(super) fn serve_args_from_environment() -> Result<(ServeArgs, Vec<&'static str>), ConfigError> {
    let command = ServeArgs::augment_args(clap::Command::new("serve"));
    let wrong = |error: &clap::Error| {
        let text = error.to_string();
        let message = text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
        ConfigError { file: "the environment".to_owned(), line: None, setting: None, message }
    };
    let matches = command.try_get_matches_from(["serve"]).map_err(|error| wrong(&error))?;
    let args = ServeArgs::from_arg_matches(&matches).map_err(|error| wrong(&error))?;
    let is_set = |id: &str| matches.value_source(id) == Some(ValueSource::EnvVariable);
    let set = SERVE.iter().filter(|(id, _)| is_set(id)).map(|(_, setting)| *setting).collect();
    Ok((args, set))
}
