//! The files of the console that may contain somebody who is erased: uploads, exports and rejected rows.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::api::Api;
use crate::api::jobs::{FILE, Kind, Record, State};

impl Api {
    /// Deletes them, except those that running imports use.
    pub(crate) fn delete_personal_files(&self) {
        self.jobs.delete_personal_files();
        self.uploads.delete_all_but(&self.jobs.uploads_in_use());
    }
}

/// Deletes them in the directory of a console that is not part of this process. If it is being served, those that running imports
/// use stay; the server notices that the others are gone.
pub fn delete_personal_files(console: &Path, is_served: bool) -> io::Result<()> {
    let mut in_use = Vec::new();
    let mut known = Vec::new();
    for record in files_in(&console.join("jobs"))?.iter().filter_map(|file| read(file)) {
        let shown = record.shown;
        let is_running = is_served && shown.state == State::Running;
        in_use.extend(shown.upload().filter(|_| is_running).map(str::to_owned));
        if shown.kind == Kind::Export {
            unless_gone(fs::remove_file(console.join("jobs").join(&shown.id).join(FILE)))?;
        }
        known.push((shown.id, is_running || shown.kind.rules().has_impersonal_files));
    }
    for dir in files_in(&console.join("jobs"))?.into_iter().filter(|file| file.is_dir()) {
        let stays = known.iter().find(|(id, _)| dir.ends_with(id)).map(|(_, stays)| *stays);
        // One without a record belongs to a job that begins, or is a leftover.
        if !stays.unwrap_or(is_served) {
            unless_gone(fs::remove_dir_all(dir))?;
        }
    }
    let uploads = files_in(&console.join("uploads"))?;
    for file in &uploads {
        let id = file.file_stem().unwrap_or_default().to_string_lossy();
        // One without a record is being sent, or is a leftover.
        let is_kept = uploads.contains(&file.with_file_name(format!("{id}.json")));
        if !in_use.iter().any(|used| *used == id) && (is_kept || !is_served) {
            unless_gone(fs::remove_file(file))?;
        }
    }
    Ok(())
}

fn read(file: &Path) -> Option<Record> {
    let text = file.extension().is_some_and(|kind| kind == "json").then(|| fs::read(file).ok()).flatten()?;
    serde_json::from_slice(&text).ok()
}

/// What is in a directory; nothing if there is none.
fn files_in(dir: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(dir) {
        Ok(entries) => entries.map(|entry| Ok(entry?.path())).collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// The server may delete it at the same time.
fn unless_gone(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
