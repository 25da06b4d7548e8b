//! What is known of jobs after a restart.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use contactd_core::Timestamp;
use serde::{Deserialize, Serialize};

use crate::api::jobs::{Job, JobShown, State};
use crate::api::records::{Records, remove_any};

/// The code and the message of a job that ran when the server ended.
pub(super) const INTERRUPTED: &str = "interrupted";
pub(super) const INTERRUPTED_MESSAGE: &str = "The server stopped while this was running. It was done whole or not at all: look whether it \
     was done, or start it again.";

/// What is kept of a job.
#[derive(Serialize, Deserialize)]
pub(crate) struct JobRecord {
    /// To whom it belongs.
    pub(super) owner: String,
    pub(crate) shown: JobShown,
}

/// The jobs that were recorded. Those that ran when the server ended have failed.
pub(super) fn read_all(records: &Records, now: Timestamp) -> io::Result<BTreeMap<String, Arc<Job>>> {
    let mut jobs = BTreeMap::new();
    for (id, JobRecord { owner, mut shown }) in records.read()? {
        let files = records.content(&id);
        if shown.state == State::Running {
            // What it had begun.
            let _ = remove_any(&files);
            shown.state = State::Failed;
            shown.ended_at = Some(now);
            shown.code = Some(INTERRUPTED.to_owned());
            shown.message = Some(INTERRUPTED_MESSAGE.to_owned());
        }
        if shown.id == id {
            jobs.insert(id, Arc::new(Job::of(owner, shown, files)));
        }
    }
    records.remove_unknown(|id| jobs.contains_key(id))?;
    Ok(jobs)
}
