//! `[tls]`: the certificate and the key of the listeners.

use std::path::{Path, PathBuf};

use contactd_tls::{Pair, PairError, PairFiles, Part};

use super::{Config, origin};
use crate::cli::ServeArgs;
use crate::misuse::Misuse;

const CERT: &str = "tls.cert";
const KEY: &str = "tls.key";

impl Config {
    /// The files of the certificate and the key; `None` if the listeners speak plain HTTP. An error comes with the setting
    /// that is there without the other.
    pub(super) fn tls(&self, args: &ServeArgs) -> Result<Option<PairFiles>, (&'static str, Misuse)> {
        let chosen = |flag: &Option<PathBuf>, file: &Option<PathBuf>| flag.clone().or_else(|| file.clone());
        let cert = chosen(&args.tls_cert, &self.file.tls.cert);
        let key = chosen(&args.tls_key, &self.file.tls.key);
        match (cert, key) {
            (None, None) => Ok(None),
            (Some(cert), Some(key)) => Ok(Some(PairFiles { cert, key })),
            (Some(_), None) => {
                let message = "a certificate needs its key: set `key` under [tls] too, or --tls-key";
                Err((CERT, Misuse(message.to_owned())))
            }
            (None, Some(_)) => {
                let message = "a key needs its certificate: set `cert` under [tls] too, or --tls-cert";
                Err((KEY, Misuse(message.to_owned())))
            }
        }
    }

    /// What is wrong with the certificate and the key, and in which setting.
    pub(super) fn tls_error(&self, args: &ServeArgs) -> Option<(&'static str, anyhow::Error)> {
        match self.tls(args) {
            Ok(files) => {
                let error = Pair::read(&files?).err()?;
                Some((setting(&error), error.into()))
            }
            Err((setting, error)) => Some((setting, error.into())),
        }
    }

    /// The certificate and the key that `serve` would use; `None` if there are none, or if they cannot be used.
    pub(crate) fn pair(&self) -> Option<Pair> {
        let (args, _) = origin::serve_args_from_environment().ok()?;
        Pair::read(&self.tls(&args).ok()??).ok()
    }
}

/// Reads the certificate and the key. Warns if the group can read the key.
pub(crate) fn read_pair(files: &PairFiles) -> anyhow::Result<Pair> {
    let pair = Pair::read(files).map_err(|error| anyhow::anyhow!("{}: {error}", setting(&error)))?;
    if pair.group_can_read() {
        let key = files.key.display();
        tracing::warn!("the group can read {key}; unless it has to, run `chmod 600 {key}`");
    }
    Ok(pair)
}

fn setting(error: &PairError) -> &'static str {
    match error.part() {
        Part::Cert => CERT,
        Part::Key => KEY,
    }
}

/// The values of both settings, to find out what has changed.
pub(super) fn named(files: Option<&PairFiles>) -> [(&'static str, String); 2] {
    let value = |path: fn(&PairFiles) -> &Path| {
        files.map_or_else(String::new, |files| path(files).display().to_string())
    };
    [(CERT, value(|files| &files.cert)), (KEY, value(|files| &files.key))]
}
