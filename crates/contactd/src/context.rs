//! The wiring: which engine, which files and which services a command or a server works with.

use std::sync::Arc;

use anyhow::bail;
use contactd_cluster::ClusterInForce;
use contactd_core::{
    Actor, BootClock, Clock, DiskBudget, InForce, Networks, Profile, Reason, SubjectName, SubjectNameError,
};
use contactd_import::UploadedFiles;
use contactd_journal::{JournalReader, KeyDir};
use contactd_services::{Parts, Services};

use crate::config::Config;
use crate::control::ControlSocket;
use crate::data_dir::DataDir;
use crate::engine::{Database, Files};
use crate::keys::{self, KeySource};
use crate::on_record::ActionRecorder;
use crate::opening::{self, Opened, Purpose};
use crate::setting::StoreAt;
use crate::{abandoned_backups, actor, output};

/// What a command works with.
pub(crate) struct Context {
    pub(crate) services: Arc<Services>,
    pub(crate) actor: Actor,
    pub(crate) dir: DataDir,
    /// Which store it is, for messages.
    pub(crate) place: String,
    pub(crate) networks: Networks,
    pub(crate) clock: Arc<dyn Clock>,
    /// The id of this machine's node; empty if it has none.
    pub(crate) node: String,
    /// The database of a cluster.
    pub(crate) database: Option<Arc<Database>>,
    /// The files of this machine's node or store.
    pub(crate) files: Option<Arc<Files>>,
    /// Whether some keys are not in the data directory.
    pub(crate) lacks_keys: bool,
    pub(crate) recorder: Arc<ActionRecorder>,
}

impl Context {
    /// Opens a store that exists. Changes take effect in running servers, if there are any.
    pub(crate) async fn open(config: Config) -> anyhow::Result<Self> {
        if matches!(config.store, StoreAt::DataDir) {
            DataDir::require(&config.data)?;
        }
        Self::open_for(config, Purpose::Using).await
    }

    /// As [`open`](Self::open), but refuses if there is no cluster.
    pub(crate) async fn open_cluster(config: Config) -> anyhow::Result<Self> {
        if matches!(config.store, StoreAt::DataDir) {
            bail!(
                "this is about a cluster: give its database with --store postgres://…, or CONTACTD_STORE, or `store` in the \
                 configuration file"
            );
        }
        Self::open(config).await
    }

    /// As [`open`](Self::open), but creates what is missing.
    pub(crate) async fn open_or_make(config: Config) -> anyhow::Result<Self> {
        Self::open_for(config, Purpose::Making).await
    }

    async fn open_for(config: Config, purpose: Purpose) -> anyhow::Result<Self> {
        let opened = Opened::open(config, purpose).await?;
        let recorder = ActionRecorder::new(&opened, false);
        let in_force: Arc<dyn InForce> = match &opened.database {
            Some(database) => Arc::new(ClusterInForce::new(Arc::clone(database))),
            None => Arc::new(ControlSocket::of(&opened.dir)),
        };
        let services = opened.services(in_force, &recorder);
        let lacks_keys = !matches!(opened.config.keys, KeySource::DataDir);
        let node = opened.node().to_owned();
        let Opened { dir, place, config: Config { networks, .. }, clock, database, files, .. } = opened;
        let actor = actor::of_this_process();
        Ok(Self { services, actor, dir, place, networks, clock, node, database, files, lacks_keys, recorder })
    }

    /// The journal of this machine's node. Refuses if there is none.
    pub(crate) fn require_node(&self) -> anyhow::Result<()> {
        opening::require_files(self.files.as_ref(), &self.dir)?;
        self.name_node();
        Ok(())
    }

    /// Says which journal is this machine's, if there are others.
    pub(crate) fn name_node(&self) {
        if self.database.is_some() && self.files.is_some() {
            output::words(format_args!("of the node in {}", self.dir.shown()));
        }
    }

    /// Who runs the command, and for which case.
    pub(crate) fn actor_for(&self, ticket: Option<&str>) -> Actor {
        self.actor.clone().for_ticket(ticket)
    }

    /// The profile of a command's URL.
    pub(crate) fn profile(&self, url: &str) -> anyhow::Result<Profile> {
        self.networks.canonicalize(url).map_err(|reason| anyhow::anyhow!(refusal(reason)))
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

/// Why a profile URL is refused, and what to do.
fn refusal(reason: Reason) -> String {
    let reason = contactd_server::invalid_reason(reason);
    format!("this profile URL cannot be used ({}): {} {}", reason.code, reason.meaning, reason.hint)
}

/// The message for a text that does not identify a subject.
pub(crate) fn subject_error(error: SubjectNameError) -> anyhow::Error {
    match error {
        SubjectNameError::Profile(reason) => anyhow::anyhow!(refusal(reason)),
        error => error.into(),
    }
}

impl Opened {
    /// The services, whose changes take effect through `in_force` and get on record through `recorder`.
    pub(crate) fn services(
        &self,
        in_force: Arc<dyn InForce>,
        recorder: &Arc<ActionRecorder>,
    ) -> Arc<Services> {
        let journal = JournalReader::of_dir(&self.dir.audit(), KeyDir::new(&self.dir.keys()));
        let services = Arc::new(Services::new(Parts {
            store: Arc::clone(&self.store),
            machine: self.machine.clone(),
            keys: self.keys.clone(),
            second_factor_key: keys::second_factor(&self.dir),
            networks: self.config.networks.clone(),
            clock: Arc::<dyn BootClock>::clone(&self.clock),
            in_force,
            on_record: Arc::<ActionRecorder>::clone(recorder),
            journal,
            remove_abandoned_backups: abandoned_backups::remover(&self.dir),
            files: UploadedFiles::new(DiskBudget::new(self.dir.room())),
            undo_for: self.config.undo_for,
        }));
        recorder.attach(&services);
        services
    }
}
