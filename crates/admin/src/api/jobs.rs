//! Long work that goes on when the browser is closed.
//!
//! A job runs on a thread of its own with the lowest priority, so that lookups do not wait for it. What is known about it is kept
//! for some days, on disk if it says nothing about a person. The files that it makes are deleted after a day, and those with
//! personal data also when somebody is erased.

mod after_restart;
mod answering;
mod routes;
mod stopping;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use contactd_core::{Cancel, Clock, DiskBudget, Progress, Timestamp, give_way_to_lookups, hex};
use futures_util::future::LocalBoxFuture;
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::runtime::Handle;

use crate::api::auth::{Call, Who};
use crate::api::permission::Permission;
use crate::api::records::{Records, make_private};
use crate::api::refusal::Refusal;
pub(crate) use after_restart::JobRecord;
pub(crate) use routes::{Started, endpoints};
use stopping::Stopped;
pub(crate) use stopping::stop_those_without_permission;

/// How long a job is listed.
const LISTED: Duration = Duration::from_secs(7 * 86_400);

/// How long a job is listed whose result names people. An erased person is not remembered for longer than it takes to read it.
const LISTED_WITH_PEOPLE: Duration = Duration::from_secs(86_400);

/// How long its files are kept.
const FILES_KEPT: Duration = Duration::from_secs(86_400);

/// The name of the file that a job makes for download.
pub(crate) const FILE: &str = "file";

/// The name of the file of rejected rows.
pub(crate) const REJECTS: &str = "rejects";

/// The code of a job that was stopped.
const CANCELLED: &str = "cancelled";

/// How many jobs of a kind may run at once; more are refused. So no other work keeps opt-outs waiting.
const MOST_RUNNING: usize = 8;

/// How long jobs may take to stop when the server stops.
const STOP_TIME: Duration = Duration::from_secs(5);

/// What kind of work a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Kind {
    Import,
    Undo,
    Export,
    Verify,
    Proof,
    Sweep,
    OptOuts,
    Erase,
    Correct,
    Remove,
}

/// What holds for every job of a kind.
pub(crate) struct KindRules {
    /// What its user has to be allowed to do.
    needs: Permission,
    /// Whether its result says nothing about a person, so that it may be kept on disk.
    is_impersonal: bool,
    /// Whether its files contain nothing about a person, so that an erasure leaves them.
    pub(crate) has_impersonal_files: bool,
    /// Whether it is completed in any case, once it has begun. The console does not offer to stop it.
    is_completed: bool,
}

impl Kind {
    pub(crate) const fn rules(self) -> KindRules {
        const IMPERSONAL: KindRules = KindRules {
            needs: Permission::Imports,
            is_impersonal: true,
            has_impersonal_files: false,
            is_completed: false,
        };
        match self {
            Self::Import | Self::Undo => IMPERSONAL,
            Self::Export => KindRules { needs: Permission::Export, ..IMPERSONAL },
            Self::Verify => KindRules { needs: Permission::AuditProof, ..IMPERSONAL },
            Self::Proof => {
                KindRules { needs: Permission::AuditProof, has_impersonal_files: true, ..IMPERSONAL }
            }
            Self::Sweep => KindRules { needs: Permission::Sweep, ..IMPERSONAL },
            Self::OptOuts => KindRules { needs: Permission::OptOuts, is_impersonal: false, ..IMPERSONAL },
            Self::Erase | Self::Correct | Self::Remove => {
                let needs = Permission::People;
                KindRules { needs, is_impersonal: false, is_completed: true, ..IMPERSONAL }
            }
        }
    }
}

/// How far a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    Running,
    Done,
    Failed,
    Cancelled,
}

/// A job, as the API shows it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct JobShown {
    pub(crate) id: String,
    pub(crate) kind: Kind,
    pub(crate) state: State,
    pub(crate) started_at: Timestamp,
    pub(crate) ended_at: Option<Timestamp>,
    /// Who started it.
    pub(crate) actor: String,
    /// What was asked for.
    pub(crate) input: Value,
    pub(crate) progress: Done,
    /// What came out, in the shape that its kind has.
    pub(crate) result: Option<Value>,
    /// Why it failed, for programs.
    pub(crate) code: Option<String>,
    /// Why it failed, for people.
    pub(crate) message: Option<String>,
    /// Whether there is a file of rejected rows.
    pub(crate) has_rejects: bool,
    /// Whether there is a file to download.
    pub(crate) has_file: bool,
}

impl JobShown {
    /// The upload that it reads, if it is an import.
    pub(crate) fn upload(&self) -> Option<&str> {
        self.input["upload"].as_str().filter(|_| self.kind == Kind::Import)
    }

    /// The same without the profiles that an import names in its report.
    fn without_people(mut self) -> Self {
        if let Some(Value::Object(result)) = &mut self.result {
            result.remove("profilesRefused");
        }
        self
    }
}

/// How much of a job is done.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Done {
    pub(crate) done: u64,
    /// `null` if it is not known.
    pub(crate) total: Option<u64>,
    /// What is counted, such as rows.
    pub(crate) unit: String,
    /// What happens now, in words.
    pub(crate) phase: String,
}

/// Progress of a service, in words.
impl From<Progress> for Done {
    fn from(progress: Progress) -> Self {
        let (done, total, unit, phase) = match progress {
            Progress::Waiting => (0, None, "", "waiting for another command that writes to the store"),
            Progress::Suppressed { .. } => (0, None, "", "opted out; looking for what is held"),
            Progress::Reading { bytes: Some((done, all)), .. } => (done, Some(all), "bytes", "reading"),
            Progress::Reading { rows, bytes: None } => (rows, None, "rows", "reading"),
            Progress::Writing { rows, all } => (rows, Some(all), "rows", "writing"),
            Progress::Checking { step, lines, all } => (lines, all.map(|all| all.max(lines)), "lines", step),
            Progress::Copying { step, done, all } => (done, all, "bytes", step),
        };
        Self { done, total, unit: unit.to_owned(), phase: phase.to_owned() }
    }
}

/// Why a job failed. What it found by then is shown too.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) code: &'static str,
    pub(crate) message: String,
    pub(crate) result: Option<Value>,
}

impl Failed {
    pub(crate) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), result: None }
    }
}

impl From<Refusal> for Failed {
    fn from(refusal: Refusal) -> Self {
        let (code, message) = refusal.into_parts();
        Self { code, message, result: None }
    }
}

impl Call {
    /// Starts a job for the caller, and answers with it.
    pub(crate) fn start<F>(self, kind: Kind, input: Value, work: F) -> Result<Started, Refusal>
    where
        F: AsyncFnOnce(&Self, &Job) -> Result<Value, Failed> + Send + 'static,
    {
        let (jobs, runtime) = (Arc::clone(&self.api.jobs), Handle::current());
        let job = jobs.add(kind, &self.who, input)?;
        let (id, running) = (job.id(), Arc::clone(&job));
        let spawned = std::thread::Builder::new().name("job".to_owned()).spawn(move || {
            give_way_to_lookups();
            // Of one type for all kinds, so that what runs it is compiled once.
            let work: LocalBoxFuture<'_, _> = Box::pin(work(&self, &running));
            let working = std::panic::AssertUnwindSafe(|| runtime.block_on(work));
            let ended = std::panic::catch_unwind(working);
            let ended = ended.unwrap_or_else(|_| {
                Err(Failed::new("internal", "Internal server error. The log says more."))
            });
            running.end(ended, self.api.clock.now());
            self.api.jobs.keep(&running);
            self.api.delete_files_of_erased(&running);
        });
        if let Err(error) = spawned {
            tracing::error!(target: "contactd::admin", %error, "cannot start a job");
            jobs.jobs.lock().remove(&id);
            return Err(Refusal::internal());
        }
        Ok(Started(job))
    }
}

/// All jobs of this server.
pub(crate) struct Jobs {
    records: Records,
    clock: Arc<dyn Clock>,
    jobs: Mutex<BTreeMap<String, Arc<Job>>>,
}

/// One job.
pub(crate) struct Job {
    /// To whom it belongs.
    owner: String,
    shown: Mutex<JobShown>,
    /// The directory of its files.
    dir: PathBuf,
    cancel: Cancel,
    /// Why it was asked to stop, if it was.
    stopped: Mutex<Option<Stopped>>,
    /// Is sent when it has ended.
    ended: tokio::sync::watch::Sender<bool>,
}

impl Jobs {
    /// The jobs whose records are in this directory. Those that ran when the server ended have failed.
    pub(crate) fn open(room: &Path, disk: &DiskBudget, clock: Arc<dyn Clock>) -> io::Result<Arc<Self>> {
        let records = Records::make(room.join("jobs"), disk)?;
        let jobs = Mutex::new(after_restart::read_all(&records, clock.now())?);
        Ok(Arc::new(Self { records, clock, jobs }))
    }

    fn add(&self, kind: Kind, who: &Who, input: Value) -> Result<Arc<Job>, Refusal> {
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(|_| Refusal::internal())?;
        let now = self.clock.now();
        // Ids sort by time.
        let id = format!("{:012x}{}", now.millis(), hex::encode(&random));
        let shown = JobShown {
            id: id.clone(),
            kind,
            state: State::Running,
            started_at: now,
            ended_at: None,
            actor: who.actor.to_string(),
            input,
            progress: Done { phase: "starting".to_owned(), ..Done::default() },
            result: None,
            code: None,
            message: None,
            has_rejects: false,
            has_file: false,
        };
        let job = Arc::new(Job::of(who.owner.clone(), shown, self.records.content(&id)));
        let mut jobs = self.jobs.lock();
        if jobs.values().filter(|job| job.kind() == kind && job.is_running()).count() >= MOST_RUNNING {
            return Err(Refusal::conflict(
                "Too many jobs of this kind are running. Wait until one has ended.",
            ));
        }
        jobs.insert(id, Arc::clone(&job));
        drop(jobs);
        self.keep(&job);
        Ok(job)
    }

    /// The job with this id, if this user started it.
    pub(crate) fn find(&self, id: &str, who: &Who) -> Option<Arc<Job>> {
        self.jobs.lock().get(id).filter(|job| job.is_of(who)).cloned()
    }

    /// Lists a job no longer that has ended, and gives what is known about it.
    fn forget(&self, job: &Job) -> JobShown {
        let shown = job.shown();
        self.jobs.lock().remove(&shown.id);
        self.records.remove(&shown.id);
        shown
    }

    /// The jobs of a user, newest first.
    fn of(&self, who: &Who) -> Vec<Arc<Job>> {
        self.jobs.lock().values().rev().filter(|job| job.is_of(who)).cloned().collect()
    }

    /// The jobs that run.
    fn running(&self) -> Vec<Arc<Job>> {
        self.jobs.lock().values().filter(|job| job.is_running()).cloned().collect()
    }

    /// The uploads that running jobs read.
    pub(crate) fn uploads_in_use(&self) -> Vec<String> {
        self.running().iter().filter_map(|job| job.shown().upload().map(str::to_owned)).collect()
    }

    /// Deletes the files with personal data of all jobs that have ended, and forgets whom their reports name; those of jobs that run
    /// when they end. An export that is being written notices that its file is gone, and fails.
    pub(crate) fn delete_personal_files(&self) {
        let jobs: Vec<Arc<Job>> = self.jobs.lock().values().cloned().collect();
        for export in jobs.iter().filter(|job| job.kind() == Kind::Export) {
            let _ = std::fs::remove_file(export.dir.join(FILE));
        }
        let personal = || jobs.iter().filter(|job| !job.kind().rules().has_impersonal_files);
        for job in personal().filter(|job| job.is_running()) {
            if let Err(error) = self.records.mark_erased(&job.id()) {
                tracing::error!(target: "contactd::admin", %error, "the files of a running job may outlive an erasure by a day");
            }
        }
        // Those that ended before they were marked, too.
        personal().filter(|job| !job.is_running()).for_each(|job| job.delete_personal_files());
    }

    /// Whether somebody was erased while this job ran, which has ended.
    pub(crate) fn ran_during_erasure(&self, job: &Job) -> bool {
        self.records.take_mark(&job.id())
    }

    /// Writes what is known about a job to disk, if it may be kept there.
    fn keep(&self, job: &Job) {
        let record = JobRecord { owner: job.owner.clone(), shown: job.shown().without_people() };
        if job.kind().rules().is_impersonal
            && let Err(error) = self.records.write(&job.id(), &record)
        {
            tracing::warn!(target: "contactd::admin", %error, "a job cannot be noted on disk; it is forgotten when the server stops");
        }
    }

    /// Deletes what is too old.
    pub(crate) fn tidy(&self) {
        let now = self.clock.now();
        let (mut with_old_files, mut gone) = (Vec::new(), Vec::new());
        self.jobs.lock().retain(|id, job| {
            let Some(ended_at) = job.shown().ended_at else { return true };
            if now >= ended_at.plus(FILES_KEPT) {
                with_old_files.push(Arc::clone(job));
            }
            let listed = if job.kind().rules().is_impersonal { LISTED } else { LISTED_WITH_PEOPLE };
            let is_listed = now < ended_at.plus(listed);
            if !is_listed {
                gone.push(id.clone());
            }
            is_listed
        });
        // Large files take a while, and others look for their jobs meanwhile.
        for job in with_old_files {
            let _ = std::fs::remove_dir_all(&job.dir);
        }
        gone.iter().for_each(|id| self.records.remove(id));
    }

    /// Asks all jobs to stop, and waits a moment for them.
    pub(crate) fn finish(&self) {
        let jobs = self.running();
        jobs.iter().for_each(|job| job.stop(Stopped::WithTheServer));
        let until = Instant::now() + STOP_TIME;
        while jobs.iter().any(|job| job.is_running()) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Job {
    fn of(owner: String, shown: JobShown, dir: PathBuf) -> Self {
        let is_over = shown.state != State::Running;
        Self {
            owner,
            shown: Mutex::new(shown),
            dir,
            cancel: Cancel::default(),
            stopped: Mutex::default(),
            ended: tokio::sync::watch::Sender::new(is_over),
        }
    }

    /// Deletes its files, and forgets whom its report names.
    pub(crate) fn delete_personal_files(&self) {
        let mut shown = self.shown.lock();
        *shown = shown.clone().without_people();
        drop(shown);
        let _ = std::fs::remove_dir_all(&self.dir);
    }

    /// What is known about it now. `contactd erase` may have deleted its files.
    pub(crate) fn shown(&self) -> JobShown {
        let shown = self.shown.lock().clone();
        let has = |name: &str| shown.state != State::Running && self.dir.join(name).is_file();
        JobShown { has_file: has(FILE), has_rejects: has(REJECTS), ..shown }
    }

    pub(crate) fn id(&self) -> String {
        self.shown.lock().id.clone()
    }

    fn kind(&self) -> Kind {
        self.shown.lock().kind
    }

    fn is_running(&self) -> bool {
        self.shown.lock().state == State::Running
    }

    fn is_of(&self, who: &Who) -> bool {
        let shown = self.shown.lock();
        // Who has another role by now cannot fetch what the earlier one made.
        self.owner == who.owner && shown.kind.rules().needs.roles().contains(&who.role)
    }

    /// Asks it to stop. The first reason counts.
    fn stop(&self, why: Stopped) {
        self.stopped.lock().get_or_insert(why);
        self.cancel.cancel();
    }

    /// The request to stop it.
    pub(crate) fn cancel(&self) -> &Cancel {
        &self.cancel
    }

    /// A file that it makes, by its name. Its directory exists.
    pub(crate) fn file(&self, name: &str) -> io::Result<PathBuf> {
        make_private(&self.dir)?;
        Ok(self.dir.join(name))
    }

    /// Shows how far it is.
    pub(crate) fn note(&self, done: Done) {
        self.shown.lock().progress = done;
    }

    /// Shows how far a service is.
    pub(crate) fn observe(&self, progress: Progress) {
        self.note(progress.into());
    }

    fn end(&self, ended: Result<Value, Failed>, now: Timestamp) {
        let mut shown = self.shown.lock();
        shown.ended_at = Some(now);
        match ended {
            Ok(result) => (shown.state, shown.result) = (State::Done, Some(result)),
            Err(failed) => {
                let failed = match *self.stopped.lock() {
                    Some(why) if failed.code == CANCELLED => why.explain(failed),
                    _ => failed,
                };
                shown.state = if failed.code == CANCELLED { State::Cancelled } else { State::Failed };
                shown.code = Some(failed.code.to_owned());
                shown.message = Some(failed.message);
                shown.result = failed.result;
            }
        }
        if shown.state != State::Done {
            // What was begun and not finished.
            let _ = std::fs::remove_file(self.dir.join(FILE));
        }
        drop(shown);
        // Only if there is nothing in it.
        let _ = std::fs::remove_dir(&self.dir);
        self.ended.send_replace(true);
    }

    /// Waits until it has ended, at most so long. Returns whether it has.
    pub(crate) async fn wait(&self, most: Duration) -> bool {
        let mut ended = self.ended.subscribe();
        tokio::time::timeout(most, ended.wait_for(|is_over| *is_over)).await.is_ok()
    }
}
