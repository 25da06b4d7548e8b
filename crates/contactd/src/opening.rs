//! Opens a store: the files of a data directory, or the database of a cluster and this machine's node.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use contactd_cluster::data_dir_id;
use contactd_core::store::{Facts, Machine, Store, StoreError};
use contactd_core::{BootClock, DigestKeys, Finding, SystemClock, hex};
use contactd_store_postgres::{Settings, StoreUrl};

use crate::config::Config;
use crate::data_dir::DataDir;
use crate::engine::{Database, Files};
use crate::keys::{self, KeySource};
use crate::setting::StoreAt;
use crate::{log, output};

/// How often a starting server says what it waits for.
const TELL_AGAIN: Duration = Duration::from_secs(60);
/// The pause of a starting server between two tries.
const RETRY_PAUSE: Duration = Duration::from_millis(250);

/// An open store.
pub(crate) struct Opened {
    pub(crate) dir: DataDir,
    /// Which store it is, for messages.
    pub(crate) place: String,
    /// The store of the services.
    pub(crate) store: Arc<dyn Store>,
    /// This machine. A command on a machine without a node has none.
    pub(crate) machine: Option<Machine>,
    /// The files in the data directory, which lookups read. A command on a machine without a node has none.
    pub(crate) files: Option<Arc<Files>>,
    /// The database of a cluster.
    pub(crate) database: Option<Arc<Database>>,
    pub(crate) keys: DigestKeys,
    pub(crate) clock: Arc<dyn BootClock>,
    /// What it was opened with.
    pub(crate) config: Config,
}

/// What a store is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To serve. A missing data directory is made.
    Server,
    /// To run a command that makes a missing store.
    Making,
    /// To run a command that does not.
    Using,
}

impl Opened {
    /// Opens the store, and checks that it and the keys belong together.
    pub(crate) async fn open(config: Config, purpose: Purpose) -> anyhow::Result<Self> {
        match config.store.clone() {
            StoreAt::DataDir => Self::open_embedded(config, purpose).await,
            StoreAt::Database(url) => Self::open_cluster(config, &url, purpose).await,
        }
    }

    async fn open_embedded(config: Config, purpose: Purpose) -> anyhow::Result<Self> {
        let dir = DataDir::make(&config.data)?;
        let (files, keys) = open_files(&dir, &config.keys).await?;
        refuse_copy(&files, &dir)?;
        let node = node(&files).await?;
        dir.give_to_owner();
        let files = Arc::new(for_purpose(files, purpose, &config));
        let store: Arc<dyn Store> = Arc::<Files>::clone(&files);
        let machine = Machine::embedded(node, Arc::clone(&store));
        Ok(Self {
            place: format!("data directory {}", dir.shown()),
            dir,
            store,
            machine: Some(machine),
            files: Some(files),
            database: None,
            keys,
            clock: Arc::new(SystemClock),
            config,
        })
    }

    async fn open_cluster(config: Config, url: &StoreUrl, purpose: Purpose) -> anyhow::Result<Self> {
        // What a node has a copy of is elsewhere, or is about to be restored.
        let makes_tables = purpose != Purpose::Using && !Files::is_in(&config.data);
        let deadlines = match purpose {
            Purpose::Server => config.cluster.deadlines_of_server(),
            Purpose::Making | Purpose::Using => config.cluster.deadlines(),
        };
        let database = Arc::new(connect(url, deadlines, purpose, makes_tables).await?);
        refuse_half_moved(&database).await?;
        // A command makes a directory only where it was told to. One with keys alone is that of a machine without a node.
        let is_empty = std::fs::read_dir(&config.data).map_or(true, |mut entries| entries.next().is_none());
        let makes =
            purpose == Purpose::Server || (purpose == Purpose::Making && config.data_is_given && is_empty);
        let has_node = makes || Files::is_in(&config.data);
        let dir = if makes { DataDir::make(&config.data)? } else { DataDir::existing(&config.data) };
        let keys = cluster_keys(&database, &dir, &config.keys, makes).await?;
        database.use_keys(&keys);
        let (files, machine) = match has_node {
            true => Some(open_node(&database, &dir, purpose, &config).await?),
            false => None,
        }
        .unzip();
        Ok(Self {
            place: format!("database {url}"),
            dir,
            store: Arc::<Database>::clone(&database),
            machine,
            files,
            database: Some(database),
            keys,
            clock: Arc::new(SystemClock),
            config,
        })
    }
}

/// What there is to say about the database of a cluster before it is opened, and how long the rest may take, if it is worth looking on;
/// `None` if there is no cluster.
pub(crate) async fn database_findings(config: &Config) -> Option<(Vec<Finding>, Option<Duration>)> {
    match &config.store {
        StoreAt::DataDir => None,
        StoreAt::Database(url) => {
            Some(contactd_cluster::database_findings(url, Database::condition(url).await))
        }
    }
}

/// Connects to the database. A server waits for it as long as it takes.
pub(crate) async fn connect(
    url: &StoreUrl,
    (patience, answer): (Duration, Duration),
    purpose: Purpose,
    makes_tables: bool,
) -> anyhow::Result<Database> {
    let is_server = purpose == Purpose::Server;
    let mut told: Option<(String, Instant)> = None;
    loop {
        let opened = Database::open(Settings {
            url: url.clone(),
            patience,
            answer,
            makes_tables,
            on_wait: match is_server {
                true => Box::new(|| tracing::debug!("waiting for the database")),
                false => Box::new(|| output::words(format_args!("contactd: waiting for the database"))),
            },
        });
        match opened.await {
            Err(StoreError::Unavailable(error)) if is_server => {
                let is_told = |(told, at): &(String, Instant)| *told == error && at.elapsed() < TELL_AGAIN;
                if !told.as_ref().is_some_and(is_told) {
                    tracing::warn!(error, database = %url, "the database cannot be used: this node waits for it, and answers 503");
                    told = Some((error, Instant::now()));
                }
                tokio::time::sleep(RETRY_PAUSE).await;
            }
            opened => return opened.with_context(|| format!("cannot use {url}")),
        }
    }
}

/// Opens the files of a data directory and their keys, and checks that they belong together.
pub(crate) async fn open_files(dir: &DataDir, keys: &KeySource) -> anyhow::Result<(Files, DigestKeys)> {
    let files = open(dir)?;
    let keys = open_keys(&files, dir, keys).await?;
    Ok((files, keys))
}

fn open(dir: &DataDir) -> anyhow::Result<Files> {
    Files::open(dir.path()).with_context(|| format!("cannot open the store in {}", dir.path().display()))
}

/// A server answers lookups from a table of its own.
fn for_purpose(files: Files, purpose: Purpose, config: &Config) -> Files {
    match purpose {
        Purpose::Server => files.with_lookup_table(config.table_bytes()),
        Purpose::Making | Purpose::Using => files,
    }
}

/// Refuses the copy of a node: what it holds is in the database of the cluster, and a store that was moved there is not used
/// any more.
fn refuse_copy(files: &Files, dir: &DataDir) -> anyhow::Result<()> {
    if files.is_copy()? {
        bail!(
            "{} belongs to a node of a cluster, whose store is a database: give its URL with --store postgres://… (or \
             CONTACTD_STORE, or `store` in the configuration file)",
            dir.shown()
        );
    }
    Ok(())
}

/// Refuses a database into which a store is being moved: what it holds so far would be taken for everything.
async fn refuse_half_moved(database: &Database) -> anyhow::Result<()> {
    if database.is_half_moved().await? {
        bail!(
            "a store is being moved into this database, and not all of it is there: run `contactd migrate` again, which goes on \
             where it was"
        );
    }
    Ok(())
}

/// The node in a data directory, which becomes one if it is empty.
async fn open_node(
    database: &Database,
    dir: &DataDir,
    purpose: Purpose,
    config: &Config,
) -> anyhow::Result<(Arc<Files>, Machine)> {
    let (files, lineage) = (open(dir)?, database.lineage().await?);
    match files.copy_state()? {
        None if files.holds_anything()? => bail!(
            "{} holds a store of its own, not the copy of a node. Choose another directory with --data DIR, or move this store \
             into the database with `contactd migrate --to postgres://…`",
            dir.shown()
        ),
        None => files.begin_copy(&lineage)?,
        Some(copied) if copied.lineage != lineage => bail!(
            "the node in {} belongs to another database; choose another directory with --data DIR",
            dir.shown()
        ),
        Some(_) => {}
    }
    let id = node(&files).await?;
    if let Some(data_dir) = data_dir_id(dir.path()) {
        database.use_node(&id, data_dir);
    }
    dir.give_to_owner();
    let files = Arc::new(for_purpose(files, purpose, config));
    let machine = Machine::of_node(id, Arc::<Files>::clone(&files));
    Ok((files, machine))
}

/// The digest keys of a cluster. The first one is created with its database; later ones have to be brought along.
async fn cluster_keys(
    database: &Database,
    dir: &DataDir,
    source: &KeySource,
    may_make: bool,
) -> anyhow::Result<DigestKeys> {
    let is_missing = matches!(source, KeySource::DataDir) && !keys::are_in(&dir.keys());
    let expected = database.fact("digest_key").await?;
    let keys = dir.keys();
    match &expected {
        Some(expected) if is_missing => bail!(
            "the digest key with fingerprint {expected} is missing: copy keys/digest-*.key of a node to {}, or give it with \
             CONTACTD_DIGEST_KEYS, or with `digest` under [keys] in the configuration file",
            keys.display()
        ),
        None if is_missing && !may_make => bail!(
            "this database has no digest key yet: start a node with `contactd serve`, which creates one in its data directory, \
             or give one with CONTACTD_DIGEST_KEYS"
        ),
        _ => {}
    }
    let opened = open_keys(database, dir, source).await?;
    if is_missing {
        log::say(format_args!(
            "created the digest key of this cluster in {}: copy it to every node and to every machine that runs commands, and \
             keep a copy in a safe place",
            keys.display()
        ));
    }
    Ok(opened)
}

/// Opens the keys of a store. Only a store that never had a key gets a new one.
async fn open_keys(store: &impl Facts, dir: &DataDir, source: &KeySource) -> anyhow::Result<DigestKeys> {
    let known = store.fact("digest_key").await?;
    let keys = keys::digest(source, &dir.keys(), known.is_none())?;
    // Whoever came first decides.
    let expected = match known {
        Some(known) => known,
        None => store.remember("digest_key", keys.newest_id()).await?,
    };
    if !keys.hold(&expected) {
        bail!(
            "the digest keys {} do not belong to this store: with them, people who opted out would be disclosed. \
             Restore the key with fingerprint {expected}",
            source.words(&dir.keys())
        );
    }
    Ok(keys)
}

/// The name of this node: created at random once, and stored.
async fn node(files: &Files) -> anyhow::Result<String> {
    if let Some(node) = files.fact("node").await? {
        return Ok(node);
    }
    let mut bytes = [0; 4];
    getrandom::fill(&mut bytes)
        .map_err(|error| anyhow::anyhow!("cannot get random bytes from the system: {error}"))?;
    Ok(files.remember("node", &hex::encode(&bytes)).await?)
}

impl Opened {
    /// The id of this machine's node; empty if it has none.
    pub(crate) fn node(&self) -> &str {
        self.machine.as_ref().map_or("", Machine::node)
    }

    /// The files in the data directory. Refuses if there are none.
    pub(crate) fn files(&self) -> anyhow::Result<Arc<Files>> {
        require_files(self.files.as_ref(), &self.dir)
    }
}

/// The files of this machine's node. Refuses if there are none.
pub(crate) fn require_files(files: Option<&Arc<Files>>, dir: &DataDir) -> anyhow::Result<Arc<Files>> {
    files.cloned().with_context(|| {
        format!("there is no node in {}; give the data directory of a node with --data DIR", dir.shown())
    })
}
