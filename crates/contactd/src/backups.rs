//! Backups of a data directory: databases, keys and journal in one file.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use contactd_core::store::Maintenance;
use contactd_core::{Observer, Progress, Timestamp};
use contactd_services::{BackupError, BackupMade};

use crate::abandoned_backups::{COPIES, WRITTEN_TO, claim};
use crate::archive::{self, Content, Counted};
use crate::context::Context;
use crate::{durable, keys, opening, unfinished};

/// Where a backup goes.
pub(crate) enum BackupTarget<'a> {
    /// A file that does not exist yet.
    File(&'a Path),
    /// A stream, such as standard output.
    Stream(&'a mut (dyn Write + Send + 'static)),
}

impl Context {
    /// Makes a backup of the data directory. A file is read back before it gets its name.
    pub(crate) async fn make_backup(
        &self,
        target: BackupTarget<'_>,
        at: Timestamp,
        observer: Observer<'_>,
    ) -> Result<BackupMade, BackupError> {
        let made = match target {
            BackupTarget::File(file) => self.back_up_to_file(file, at, observer).await,
            BackupTarget::Stream(out) => self.back_up_to_stream(out, at, observer).await,
        };
        made.map_err(|error| BackupError(format!("{error:#}")))
    }

    async fn back_up_to_file(
        &self,
        file: &Path,
        made_at: Timestamp,
        observer: Observer<'_>,
    ) -> anyhow::Result<BackupMade> {
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
        let copies = Copies::make(self, observer).await?;
        let unfinished = std::path::absolute(unfinished::name(file))?;
        copies.note(&unfinished)?;
        let made = archive::write_file(&unfinished, self.content(&copies, made_at), observer)
            .and_then(|()| archive::read(&unfinished, None, observer))
            .and_then(|_| put_in_place(&unfinished, file));
        if made.is_err() {
            let _ = fs::remove_file(&unfinished);
        }
        made.with_context(|| format!("cannot create {}", file.display()))?;
        Ok(self.made(Some(file.to_owned()), made_at, file.metadata()?.len()))
    }

    async fn back_up_to_stream(
        &self,
        out: &mut (dyn Write + Send),
        made_at: Timestamp,
        observer: Observer<'_>,
    ) -> anyhow::Result<BackupMade> {
        let copies = Copies::make(self, observer).await?;
        let mut bytes = 0;
        let counted = Counted { through: out, count: |written| bytes += written };
        archive::write(BufWriter::with_capacity(1 << 20, counted), self.content(&copies, made_at), observer)
            .context("the backup is not complete: it could not be written")?;
        Ok(self.made(None, made_at, bytes))
    }

    fn content<'a>(&self, copies: &'a Copies, made_at: Timestamp) -> Content<'a> {
        let (dir, files, is_of_node) = (copies.path(), &copies.files, self.database.is_some());
        Content { dir, files, made_at: made_at.to_string(), is_of_node }
    }

    fn made(&self, file: Option<PathBuf>, made_at: Timestamp, bytes: u64) -> BackupMade {
        BackupMade { file, made_at, bytes, lacks_keys: self.lacks_keys, not_noted: None }
    }
}

/// Copies of everything that a backup contains, as of one moment. In the data directory, because it is as private as the
/// copied files. Dropping them removes them.
struct Copies {
    dir: tempfile::TempDir,
    /// Their names.
    files: Vec<String>,
    _in_progress: File,
}

impl Copies {
    async fn make(from: &Context, observer: Observer<'_>) -> anyhow::Result<Self> {
        observer(Progress::Copying { step: "copying the databases", done: 0, all: None });
        let in_progress = claim(&from.dir)?;
        let dir = from.dir.path();
        let copies = tempfile::Builder::new().prefix(COPIES).tempdir_in(dir)?;
        let store = opening::require_files(from.files.as_ref(), &from.dir)?;
        let mut files = store.copy_to(copies.path()).await.context("cannot copy the databases")?;
        fs::create_dir(copies.path().join("keys"))?;
        for key in fs::read_dir(from.dir.keys())? {
            let name = key?.file_name().to_string_lossy().into_owned();
            // With the journal's own keys, whoever has a backup could sign lines; with that of second factors, log in.
            if contactd_journal::is_journal_key(&name) || name == keys::SECOND_FACTOR {
                continue;
            }
            let name = format!("keys/{name}");
            durable::copy(&dir.join(&name), &copies.path().join(&name))?;
            files.push(name);
        }
        // Copied after the databases, so that the journal includes everything up to their copy.
        fs::create_dir(copies.path().join("audit"))?;
        if let Err(error) = from.recorder.sign() {
            tracing::warn!(%error, "the last lines of the journal are not signed, so the backup leaves them out");
        }
        let segments = contactd_journal::copy(&from.dir.audit(), &copies.path().join("audit"))?;
        files.extend(segments.into_iter().map(|name| format!("audit/{name}")));
        Ok(Self { dir: copies, files, _in_progress: in_progress })
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Notes where the backup is written to, so that it is found if this process is killed.
    fn note(&self, unfinished: &Path) -> io::Result<()> {
        durable::write(&self.path().join(WRITTEN_TO), unfinished.as_os_str().as_bytes())
    }
}

/// Gives the file its final name. Fails if another file has that name by now.
fn put_in_place(unfinished: &Path, file: &Path) -> anyhow::Result<()> {
    fs::hard_link(unfinished, file)?;
    fs::remove_file(unfinished)?;
    durable::sync_parent(file)?;
    Ok(())
}
