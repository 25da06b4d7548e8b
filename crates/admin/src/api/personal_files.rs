//! The files of the console that may contain somebody who is erased: uploads, exports and rejected rows.

use std::io;
use std::path::Path;

use crate::api::Api;
use crate::api::jobs::{FILE, Job, JobRecord, Kind, State};
use crate::api::records::{Records, id_of, remove_any};

impl Api {
    /// Deletes them, except those that running imports use.
    pub(crate) fn delete_personal_files(&self) {
        self.jobs.delete_personal_files();
        self.uploads.delete_all_but(&self.jobs.uploads_in_use());
    }

    /// Deletes the files of a job that has ended, and what it read, if somebody was erased while it ran.
    pub(crate) fn delete_files_of_erased(&self, job: &Job) {
        if self.jobs.ran_during_erasure(job) {
            job.delete_personal_files();
            if let Some(upload) = job.shown().upload() {
                self.uploads.remove(upload);
            }
        }
    }
}

/// Deletes them in the directory of a console that is not part of this process. If it is being served, those that running imports
/// use stay until these end; the server notices that the others are gone, and keeps no file that is being sent.
pub fn delete_personal_files(console: &Path, is_served: bool) -> io::Result<()> {
    let (jobs, uploads) = (Records::of(console.join("jobs")), Records::of(console.join("uploads")));
    let mut in_use = Vec::new();
    let mut known = Vec::new();
    for (id, JobRecord { shown, .. }) in jobs.read()? {
        if is_served && shown.state == State::Running && !shown.kind.rules().has_impersonal_files {
            jobs.mark_erased(&id)?;
        }
    }
    // Once more: one that has ended before it was marked does not look for its mark any more.
    for (id, JobRecord { shown, .. }) in jobs.read()? {
        let is_running = is_served && shown.state == State::Running;
        in_use.extend(shown.upload().filter(|_| is_running).map(str::to_owned));
        if shown.kind == Kind::Export {
            remove_any(&jobs.content(&id).join(FILE))?;
        }
        known.push((id, is_running || shown.kind.rules().has_impersonal_files));
    }
    for dir in jobs.files()?.into_iter().filter(|file| file.is_dir()) {
        let stays = known.iter().find(|(id, _)| dir.ends_with(id)).map(|(_, stays)| *stays);
        // One without a record belongs to a job that begins, or is a leftover.
        if !stays.unwrap_or(is_served) {
            remove_any(&dir)?;
        }
    }
    // One without a record is being sent, or is a leftover.
    uploads
        .files()?
        .iter()
        .filter(|file| !in_use.contains(&id_of(file)))
        .try_for_each(|file| remove_any(file))
}
