//! Backups of a data directory: databases, keys and journal in one file.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use contactd_core::Timestamp;
use contactd_core::services::{BackupError, BackupMade, Backups, Making};
use contactd_core::store::Maintenance;

use crate::data_dir::DataDir;
use crate::engine::Store;
use crate::on_record::Recorder;
use crate::{archive, durable, unfinished};

/// The name prefix of the temporary directories in which backups are assembled.
const COPIES: &str = ".backup-";

/// Makes backups of a data directory.
pub(crate) struct DirBackups {
    pub(crate) dir: DataDir,
    pub(crate) store: Arc<Store>,
    /// Whether some keys are not in the data directory.
    pub(crate) lacks_keys: bool,
    pub(crate) recorder: Arc<Recorder>,
}

impl Backups for DirBackups {
    fn make<'a>(&'a self, file: &'a Path, at: Timestamp) -> Making<'a> {
        Box::pin(
            async move { self.make_file(file, at).await.map_err(|error| BackupError(format!("{error:#}"))) },
        )
    }

    fn remove_abandoned(&self) -> Result<bool, BackupError> {
        remove_abandoned(&self.dir).map_err(|error| BackupError(format!("{error:#}")))
    }
}

impl DirBackups {
    async fn make_file(&self, file: &Path, made_at: Timestamp) -> anyhow::Result<BackupMade> {
        if file.symlink_metadata().is_ok() {
            bail!("{} exists; choose another file name, or move it away", file.display());
        }
        let dir = self.dir.path();
        let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if let (Ok(parent), Ok(dir)) = (parent.canonicalize(), dir.canonicalize())
            && parent.starts_with(&dir)
        {
            bail!(
                "{} is inside the data directory; choose a place outside, on another disk if possible",
                file.display()
            );
        }
        let _in_progress = claim(&self.dir)?;
        // In the data directory, because it is as private as the copied files.
        let copies = tempfile::Builder::new().prefix(COPIES).tempdir_in(dir)?;
        let mut files = self.store.copy_to(copies.path()).await.context("cannot copy the databases")?;
        fs::create_dir(copies.path().join("keys"))?;
        for key in fs::read_dir(self.dir.keys())? {
            let name = key?.file_name().to_string_lossy().into_owned();
            // With the journal's own keys, whoever has a backup could sign lines.
            if contactd_journal::is_journal_key(&name) {
                continue;
            }
            let name = format!("keys/{name}");
            durable::copy(&dir.join(&name), &copies.path().join(&name))?;
            files.push(name);
        }
        // Copied after the databases, so that the journal includes everything up to their copy.
        fs::create_dir(copies.path().join("audit"))?;
        if let Err(error) = self.recorder.sign() {
            tracing::warn!(%error, "the last lines of the journal are not signed, so the backup leaves them out");
        }
        let segments = contactd_journal::copy(&self.dir.audit(), &copies.path().join("audit"))?;
        files.extend(segments.into_iter().map(|name| format!("audit/{name}")));
        let unfinished = unfinished::name(file);
        let made = archive::write(&unfinished, copies.path(), &files, made_at.to_string())
            .and_then(|()| archive::read(&unfinished, None))
            .and_then(|_| put_in_place(&unfinished, file));
        if made.is_err() {
            let _ = fs::remove_file(&unfinished);
        }
        made.with_context(|| format!("cannot create {}", file.display()))?;
        let bytes = file.metadata()?.len();
        Ok(BackupMade { file: file.to_owned(), made_at, bytes, lacks_keys: self.lacks_keys })
    }
}

/// Gives the file its final name. Fails if another file has that name by now.
fn put_in_place(unfinished: &Path, file: &Path) -> anyhow::Result<()> {
    fs::hard_link(unfinished, file)?;
    fs::remove_file(unfinished)?;
    durable::sync_parent(file)?;
    Ok(())
}

/// Marks that a backup is being made, visibly for all processes and containers, until the result is dropped. First removes what
/// killed backups left.
fn claim(dir: &DataDir) -> anyhow::Result<File> {
    remove_abandoned(dir)?;
    let claim = File::open(dir.keys())?;
    claim.lock_shared()?;
    Ok(claim)
}

/// Removes the copies of killed backups, unless a backup is being made now. Returns false in that case.
fn remove_abandoned(dir: &DataDir) -> anyhow::Result<bool> {
    // Every backup copies the keys, so it locks their directory. The data directory itself is locked by the running server.
    let claim = File::open(dir.keys())?;
    if claim.try_lock().is_err() {
        return Ok(false);
    }
    for entry in fs::read_dir(dir.path())? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(COPIES) {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(true)
}
