//! What backups that were killed left behind, and how a backup says that it is being made.

use std::fs::{self, File};
use std::path::PathBuf;

use anyhow::Context as _;
use contactd_services::{BackupError, RemoveAbandoned};

use crate::data_dir::DataDir;
use crate::unfinished;

/// The name prefix of the temporary directories in which backups are assembled.
pub(crate) const COPIES: &str = ".backup-";
/// A file in such a directory: the path of the file that the backup is written to until it is complete.
pub(crate) const WRITTEN_TO: &str = "written-to";

/// Removes what interrupted backups of a data directory left behind.
pub(crate) fn remover(dir: &DataDir) -> RemoveAbandoned {
    let dir = dir.clone();
    Box::new(move || {
        if !dir.keys().is_dir() {
            // Without a node on this machine, nobody made a backup here.
            return Ok(true);
        }
        let removed = remove_abandoned(&dir).map_err(|error| BackupError(format!("{error:#}")))?;
        Ok(removed.is_some())
    })
}

/// Marks that a backup is being made, visibly for all processes and containers, until the result is dropped. First removes what
/// killed backups left.
pub(crate) fn claim(dir: &DataDir) -> anyhow::Result<File> {
    remove_abandoned(dir)?;
    let claim = File::open(dir.keys())?;
    claim.lock_shared()?;
    Ok(claim)
}

/// Removes what killed backups left: their copies, and the files they were writing. Returns what was removed, or `None` while a
/// backup is being made.
pub(crate) fn remove_abandoned(dir: &DataDir) -> anyhow::Result<Option<Vec<PathBuf>>> {
    // Every backup copies the keys, so it locks their directory. The data directory itself is locked by the running server.
    let claim = File::open(dir.keys())?;
    if claim.try_lock().is_err() {
        return Ok(None);
    }
    let mut removed = Vec::new();
    for entry in fs::read_dir(dir.path())? {
        let entry = entry?;
        if !entry.file_name().to_string_lossy().starts_with(COPIES) {
            continue;
        }
        let copies = entry.path();
        if let Some(file) = unfinished::noted_in(&copies.join(WRITTEN_TO))
            && file.is_file()
        {
            fs::remove_file(&file).with_context(|| format!("cannot remove {}", file.display()))?;
            removed.push(file);
        }
        // After the file: if this process is killed in between, the next one still finds the note.
        fs::remove_dir_all(&copies).with_context(|| format!("cannot remove {}", copies.display()))?;
        removed.push(copies);
    }
    Ok(Some(removed))
}
