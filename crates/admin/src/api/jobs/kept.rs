//! What is kept of jobs on disk, so that a restart does not forget them.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use contactd_core::Timestamp;
use serde::{Deserialize, Serialize};

use crate::api::jobs::{Job, JobShown, State};

/// Makes a directory that only its owner can read.
pub(crate) fn make_private(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

/// The code and the message of a job that ran when the server ended.
pub(super) const INTERRUPTED: &str = "interrupted";
pub(super) const INTERRUPTED_MESSAGE: &str = "The server stopped while this was running. It was done whole or not at all: look whether it \
     was done, or start it again.";

/// What is kept of a job.
#[derive(Serialize, Deserialize)]
pub(crate) struct Record {
    /// To whom it belongs.
    owner: String,
    pub(crate) shown: JobShown,
}

/// Writes the record of a job, in place of the one before.
pub(super) fn write(dir: &Path, owner: &str, shown: JobShown) -> io::Result<()> {
    let id = shown.id.clone();
    let text = serde_json::to_vec(&Record { owner: owner.to_owned(), shown })?;
    let next = dir.join(format!("{id}.next"));
    fs::write(&next, text)?;
    fs::rename(&next, path(dir, &id))
}

/// Removes a job and its files.
pub(super) fn remove(dir: &Path, id: &str) {
    let _ = fs::remove_file(path(dir, id));
    let _ = fs::remove_dir_all(dir.join(id));
}

/// The jobs in a directory. Whatever else is in it was left by a server that was killed, and is removed.
pub(super) fn read_all(dir: &Path, now: Timestamp) -> io::Result<BTreeMap<String, Arc<Job>>> {
    let mut jobs = BTreeMap::new();
    for entry in fs::read_dir(dir)? {
        let file = entry?.path();
        let record =
            file.extension().is_some_and(|kind| kind == "json").then(|| fs::read(&file).ok()).flatten();
        let record = record.and_then(|record| serde_json::from_slice::<Record>(&record).ok());
        if let Some(Record { owner, shown }) = record.filter(|record| path(dir, &record.shown.id) == file) {
            let id = shown.id.clone();
            if shown.state == State::Running {
                // What it had begun.
                let _ = fs::remove_dir_all(dir.join(&id));
            }
            jobs.insert(id.clone(), Arc::new(Job::of(owner, interrupted(shown, now), dir.join(id))));
        }
    }
    for entry in fs::read_dir(dir)? {
        let file = entry?.path();
        let id = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let is_known =
            jobs.contains_key(&id) && (file.is_dir() || file.extension().is_some_and(|kind| kind == "json"));
        if !is_known {
            let _ = if file.is_dir() { fs::remove_dir_all(&file) } else { fs::remove_file(&file) };
        }
    }
    Ok(jobs)
}

/// A job that ran when the server ended has failed.
fn interrupted(mut shown: JobShown, now: Timestamp) -> JobShown {
    if shown.state == State::Running {
        shown.state = State::Failed;
        shown.ended_at = Some(now);
        shown.code = Some(INTERRUPTED.to_owned());
        shown.message = Some(INTERRUPTED_MESSAGE.to_owned());
        (shown.has_file, shown.has_rejects) = (false, false);
    }
    shown
}

fn path(dir: &Path, id: &str) -> PathBuf {
    dir.join(format!("{id}.json"))
}
