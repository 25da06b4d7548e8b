//! SIGHUP: a running server reads its configuration file and its certificate again, and opens its log file again.
//!
//! What can be replaced is in [`Reloadable`], and is replaced together: a file with an error changes nothing. Settings that
//! need a restart are named in the log.

use std::sync::{Arc, Weak};

use contactd_core::{AccessTables, Callers};
use contactd_server::{App, OpenFiles};
use contactd_services::Services;
use contactd_tls::Tls;
use parking_lot::Mutex;

use crate::actor;
use crate::cli::{Everywhere, ServeArgs};
use crate::config::{self, Config, Named, Reloadable, ServeConfig};
use crate::engine::Files;
use crate::indexer::Keep;
use crate::log::{self, ALWAYS};
use crate::sweeper::Pace;

/// The parts of a running server that take over new settings.
#[derive(Clone)]
pub(crate) struct Running {
    /// Not kept alive: the journal is closed when the last lookup has released it.
    pub(crate) app: Weak<App<Files>>,
    pub(crate) callers: Arc<Callers>,
    pub(crate) access_tables: Arc<AccessTables<Files>>,
    pub(crate) services: Arc<Services>,
    pub(crate) keep: Keep,
    pub(crate) pace: Pace,
    pub(crate) tls: Option<Arc<Tls>>,
}

/// Reloads a running server.
pub(crate) struct Reloader {
    everywhere: Everywhere,
    args: ServeArgs,
    running: Running,
    /// The settings in force.
    named: Mutex<Vec<Named>>,
    files: OpenFiles,
}

impl Reloader {
    pub(crate) fn new(
        everywhere: Everywhere,
        args: ServeArgs,
        running: Running,
        named: Vec<Named>,
        files: OpenFiles,
    ) -> Self {
        Self { everywhere, args, running, named: Mutex::new(named), files }
    }

    /// Reads everything again, puts it in force and logs what was done.
    pub(crate) async fn reload(&self) {
        let read = Config::resolve(&self.everywhere).and_then(|config| config.serve(&self.args));
        let reloaded = match read {
            Ok(new) => self.take_over(new).await,
            Err(error) => Err(error),
        };
        match reloaded {
            Ok((changed, fixed)) => {
                if changed.is_empty() {
                    tracing::info!(target: ALWAYS, "reloaded: no setting has changed");
                } else {
                    tracing::info!(target: ALWAYS, "reloaded: {}", changed.join(", "));
                }
                if !fixed.is_empty() {
                    tracing::warn!(target: ALWAYS, "changed in the configuration, but needs a restart: {}", fixed.join(", "));
                }
            }
            Err(error) => {
                tracing::error!(target: ALWAYS, "cannot reload, nothing has changed: {error:#}");
            }
        }
    }

    /// Returns the settings that have a new value, and what else is new; and those that have another value in the configuration, but
    /// not in this server.
    async fn take_over(&self, mut new: ServeConfig) -> anyhow::Result<(Vec<String>, Vec<String>)> {
        let before = self.named.lock().clone();
        if self.running.tls.is_some() != new.reloadable.tls.is_some() {
            // A listener cannot begin or end TLS while it runs.
            let of_tls = new.named.iter_mut().filter(|named| named.name.starts_with("tls."));
            of_tls.for_each(|named| named.reloads = false);
        }
        let is_new = |named: &&Named| !before.contains(named);
        let names = |reloads: bool| -> Vec<String> {
            let changed = new.named.iter().filter(is_new).filter(|named| named.reloads == reloads);
            changed.map(|named| named.name.to_owned()).collect()
        };
        let (mut changed, fixed) = (names(true), names(false));
        // What needs a restart is still as it was.
        let old = |name| before.iter().find(|old| old.name == name).cloned();
        let in_force: Vec<Named> = new
            .named
            .iter()
            .filter_map(|named| if named.reloads { Some(named.clone()) } else { old(named.name) })
            .collect();
        // First what can fail: then nothing has changed.
        let pair = new.reloadable.tls.as_ref().filter(|_| self.running.tls.is_some());
        let pair = pair.map(config::read_pair).transpose()?;
        let settings = &mut new.reloadable.settings;
        settings.max_connections = self.files.share(settings.max_connections)?.public;
        let log = log::reopen(&new.reloadable.log)?;
        let noted = config::noted(&in_force);
        self.running.services.audits.note_settings(&actor::of_this_process(), &noted).await?;
        log.put_in_force();
        self.put_in_force(new.reloadable).await;
        if let (Some(tls), Some(pair)) = (&self.running.tls, pair)
            && tls.replace(pair)
        {
            changed.push(format!("the certificate, which ends {}", tls.ends()));
        }
        *self.named.lock() = in_force;
        Ok((changed, fixed))
    }

    async fn put_in_force(&self, new: Reloadable) {
        let Reloadable { settings, networks, tls: _, token_limits, audit_keep, sweep_every, log: _ } = new;
        let running = &self.running;
        if let Some(app) = running.app.upgrade() {
            app.reload(settings, networks);
        }
        running.callers.set_defaults(token_limits);
        if let Err(error) = running.access_tables.refresh().await {
            tracing::error!(%error, "the limits of tokens are not in force yet; send SIGHUP again");
        }
        *running.keep.lock() = audit_keep;
        running.pace.set(sweep_every);
    }
}
