//! What a command that touches the store works with.

use std::sync::Arc;

use contactd_core::store::Suppressions;
use contactd_core::{Clock, DigestKeys, Networks, Profile, SuppressionList, SystemClock, Timestamp};
use contactd_journal::ChainKey;
use contactd_store_sqlite::SqliteStore;

use crate::config::Config;
use crate::control;
use crate::data_dir::DataDir;
use crate::keys::KeySources;

pub(crate) struct Context {
    pub(crate) dir: DataDir,
    pub(crate) store: Arc<SqliteStore>,
    pub(crate) keys: DigestKeys,
    pub(crate) key_sources: KeySources,
    pub(crate) networks: Networks,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Context {
    /// Opens the data directory, making it if it is missing.
    pub(crate) fn open(config: Config) -> anyhow::Result<Self> {
        let dir = DataDir::make(&config.data)?;
        let (store, keys) = dir.open(&config.keys)?;
        Ok(Self {
            dir,
            store: Arc::new(store),
            keys,
            key_sources: config.keys,
            networks: config.networks,
            clock: Arc::new(SystemClock),
        })
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The profile that a command's URL means.
    pub(crate) fn profile(&self, url: &str) -> anyhow::Result<Profile> {
        self.networks.canonicalize(url).map_err(|reason| {
            let reason = contactd_server::invalid_reason(reason);
            anyhow::anyhow!(
                "this profile URL cannot be used ({}): {} {}",
                reason.code,
                reason.meaning,
                reason.hint
            )
        })
    }

    /// The suppressions that are in the store now.
    pub(crate) async fn suppressions(&self) -> anyhow::Result<SuppressionList> {
        let list = SuppressionList::new(self.keys.clone());
        list.replace(self.store.list_suppressions().await?)?;
        Ok(list)
    }

    /// The key of the journal's chain, which is always the same one.
    pub(crate) fn audit_key(&self) -> anyhow::Result<ChainKey> {
        let key = self.dir.audit_key(&self.key_sources)?;
        self.store.remember("audit_key", key.id())?;
        match self.store.fact("audit_key")? {
            Some(expected) if expected != key.id() => anyhow::bail!(
                "the key of the journal is not the one it was begun with: put back the one with fingerprint {expected}"
            ),
            _ => Ok(key),
        }
    }

    /// Makes what was committed take effect in a running server.
    pub(crate) fn announce(&self) -> anyhow::Result<()> {
        control::announce(&self.dir)
    }
}
