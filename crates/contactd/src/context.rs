//! The wiring: which engine, which files and which services a command or a server works with.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use contactd_core::services::{Parts, Services};
use contactd_core::store::Facts;
use contactd_core::{
    Actor, Clock, DigestKeys, InForce, Networks, Profile, SubjectName, SubjectNameError, SystemClock, hex,
};
use contactd_journal::{JournalDir, KeyDir};

use crate::backups::DirBackups;
use crate::config::Config;
use crate::control::ControlSocket;
use crate::data_dir::DataDir;
use crate::engine::Store;
use crate::keys::{self, KeySources};
use crate::on_record::Recorder;
use crate::{actor, reasons};

/// An open data directory.
pub(crate) struct Opened {
    pub(crate) dir: DataDir,
    pub(crate) store: Arc<Store>,
    pub(crate) keys: DigestKeys,
    pub(crate) key_sources: KeySources,
    pub(crate) networks: Networks,
    pub(crate) clock: Arc<dyn Clock>,
    /// The name of this node in the journal.
    pub(crate) node: String,
    /// How long imports can be undone.
    pub(crate) undo_for: Duration,
}

/// What a command works with.
pub(crate) struct Context {
    pub(crate) services: Arc<Services<Store>>,
    pub(crate) actor: Actor,
    pub(crate) dir: DataDir,
    pub(crate) networks: Networks,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Context {
    /// Opens a data directory that exists. Changes take effect in a running server, if there is one.
    pub(crate) async fn open(config: Config) -> anyhow::Result<Self> {
        DataDir::require(&config.data)?;
        Self::open_or_make(config).await
    }

    /// As [`open`](Self::open), but creates the data directory if it is missing.
    pub(crate) async fn open_or_make(config: Config) -> anyhow::Result<Self> {
        let opened = Opened::open(config).await?;
        let recorder = Recorder::new(&opened, false);
        let services = opened.services(Arc::new(ControlSocket::of(&opened.dir)), &recorder);
        let Opened { dir, networks, clock, .. } = opened;
        Ok(Self { services, actor: actor::of_this_process(), dir, networks, clock })
    }

    /// Who runs the command, and for which case.
    pub(crate) fn actor_for(&self, ticket: Option<&str>) -> Actor {
        self.actor.clone().for_ticket(ticket)
    }

    /// The profile of a command's URL.
    pub(crate) fn profile(&self, url: &str) -> anyhow::Result<Profile> {
        self.networks.canonicalize(url).map_err(|reason| anyhow::anyhow!(reasons::refusal(reason)))
    }

    /// The one subject that a command's URL, number or address names.
    pub(crate) fn subject(
        &self,
        url: Option<&str>,
        phone: Option<&str>,
        email: Option<&str>,
    ) -> anyhow::Result<SubjectName> {
        match (url, phone, email) {
            (Some(url), None, None) => self.person(url),
            (None, Some(phone), None) => SubjectName::phone(phone).map_err(subject_error),
            (None, None, Some(email)) => SubjectName::email(email).map_err(subject_error),
            _ => bail!("give one subject: a profile URL, --phone or --email"),
        }
    }

    /// The person of a command's URL.
    pub(crate) fn person(&self, url: &str) -> anyhow::Result<SubjectName> {
        SubjectName::person(url, &self.networks).map_err(subject_error)
    }
}

/// Says that nothing is on file about somebody who is opted out now.
pub(crate) fn not_on_file(named: &SubjectName) -> String {
    let whom = match named {
        SubjectName::Person(profile) => format!("under {}", profile.as_str()),
        SubjectName::Value(_, value) => format!("with {}", value.expose()),
    };
    format!("nobody is on file {whom}; the opt-out counts for what is imported later")
}

impl Drop for Context {
    fn drop(&mut self) {
        // Some files are created only when they are first needed.
        self.dir.give_to_owner();
    }
}

/// The message for a text that does not identify a subject.
pub(crate) fn subject_error(error: SubjectNameError) -> anyhow::Error {
    match error {
        SubjectNameError::Profile(reason) => anyhow::anyhow!(reasons::refusal(reason)),
        error => error.into(),
    }
}

impl Opened {
    /// Opens the data directory, creating it if it is missing, and checks that the store and the keys belong together.
    pub(crate) async fn open(config: Config) -> anyhow::Result<Self> {
        let dir = DataDir::make(&config.data)?;
        let (store, keys) = open_store(&dir, &config.keys).await?;
        let node = node(&store).await?;
        dir.give_to_owner();
        Ok(Self {
            dir,
            store: Arc::new(store),
            keys,
            key_sources: config.keys,
            networks: config.networks,
            clock: Arc::new(SystemClock),
            node,
            undo_for: config.undo_for,
        })
    }

    /// The services, whose changes take effect through `in_force` and get on record through `recorder`.
    pub(crate) fn services(
        &self,
        in_force: Arc<dyn InForce>,
        recorder: &Arc<Recorder>,
    ) -> Arc<Services<Store>> {
        let (keys, sources) = (self.dir.keys(), self.key_sources.clone());
        let old_key = move || keys::old_audit(&sources.audit, &keys).ok().flatten();
        let journal = JournalDir {
            dir: self.dir.audit(),
            keys: KeyDir::new(&self.dir.keys()),
            old_key: Arc::new(old_key),
        };
        let backups = DirBackups {
            dir: self.dir.clone(),
            store: Arc::clone(&self.store),
            lacks_keys: self.key_sources.are_elsewhere(),
            recorder: Arc::clone(recorder),
        };
        let services = Arc::new(Services::new(Parts {
            store: Arc::clone(&self.store),
            keys: self.keys.clone(),
            networks: self.networks.clone(),
            clock: Arc::clone(&self.clock),
            in_force,
            on_record: Arc::<Recorder>::clone(recorder),
            journal: Arc::new(journal),
            node: self.node.clone(),
            backups: Arc::new(backups),
            undo_for: self.undo_for,
        }));
        recorder.attach(&services);
        services
    }
}

/// Opens the store and its keys, and checks that they belong together.
pub(crate) async fn open_store(dir: &DataDir, keys: &KeySources) -> anyhow::Result<(Store, DigestKeys)> {
    let store = Store::open(dir.path())
        .with_context(|| format!("cannot open the store in {}", dir.path().display()))?;
    // A store that already had a key never gets a new one in its place.
    let expected = store.fact("digest_key").await?;
    let source = &keys.digest;
    let keys = keys::digest(source, &dir.keys(), expected.is_none())?;
    if let Some(expected) = expected.filter(|expected| !keys.hold(expected)) {
        bail!(
            "the digest keys {} do not belong to this store: with them, people who opted out would be disclosed. \
             Restore the key with fingerprint {expected}",
            source.words(&dir.keys())
        );
    }
    store.remember("digest_key", keys.newest_id()).await?;
    Ok((store, keys))
}

/// The name of this node: created at random once, and stored.
async fn node(store: &Store) -> anyhow::Result<String> {
    if let Some(node) = store.fact("node").await? {
        return Ok(node);
    }
    let mut bytes = [0; 4];
    getrandom::fill(&mut bytes)
        .map_err(|error| anyhow::anyhow!("cannot get random bytes from the system: {error}"))?;
    Ok(store.remember("node", &hex::encode(&bytes)).await?)
}
