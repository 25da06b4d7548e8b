//! A directory of records that outlive the server: each is a JSON file named after its id, and what belongs to it is a file or a
//! directory with the id as its name.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use contactd_core::DiskBudget;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The records in a directory.
pub(crate) struct Records(PathBuf, DiskBudget);

/// Makes a directory that only its owner can read.
pub(crate) fn make_private(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

impl Records {
    /// Those in a directory that may not exist.
    pub(crate) fn of(dir: PathBuf) -> Self {
        Self(dir.clone(), DiskBudget::new(dir))
    }

    /// Makes the directory, if it is not there.
    pub(crate) fn make(dir: PathBuf, disk: &DiskBudget) -> io::Result<Self> {
        make_private(&dir)?;
        Ok(Self(dir, disk.clone()))
    }

    /// All records that can be read, with their ids.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> io::Result<Vec<(String, T)>> {
        let records =
            self.files()?.into_iter().filter(|file| file.extension().is_some_and(|kind| kind == "json"));
        let read = |file: PathBuf| Some((id_of(&file), serde_json::from_slice(&fs::read(&file).ok()?).ok()?));
        Ok(records.filter_map(read).collect())
    }

    /// Writes a record, in place of the one before.
    pub(crate) fn write(&self, id: &str, record: &impl Serialize) -> io::Result<()> {
        let next = self.0.join(format!("{id}.next"));
        let record = serde_json::to_vec(record)?;
        let _room = self.1.reserve(record.len() as u64)?;
        let written = fs::write(&next, record).and_then(|()| fs::rename(&next, self.record(id)));
        if written.is_err() {
            let _ = fs::remove_file(next);
        }
        written
    }

    /// Removes a record and what belongs to it. The record first: what has none is removed at the next start.
    pub(crate) fn remove(&self, id: &str) {
        let _ = fs::remove_file(self.record(id));
        let _ = remove_any(&self.content(id));
    }

    /// Marks that somebody was erased while what belongs to a record was in use. The mark outlives no restart: nothing is in use then.
    pub(crate) fn mark_erased(&self, id: &str) -> io::Result<()> {
        fs::write(self.mark(id), [])
    }

    /// Whether it is marked. Takes the mark away.
    pub(crate) fn take_mark(&self, id: &str) -> bool {
        fs::remove_file(self.mark(id)).is_ok()
    }

    fn mark(&self, id: &str) -> PathBuf {
        self.0.join(format!("{id}.erased"))
    }

    /// Removes whatever does not belong to a known id: a server that was killed has left it.
    pub(crate) fn remove_unknown(&self, is_known: impl Fn(&str) -> bool) -> io::Result<()> {
        for file in self.files()? {
            let id = id_of(&file);
            if !is_known(&id) || ![self.record(&id), self.content(&id)].contains(&file) {
                let _ = remove_any(&file);
            }
        }
        Ok(())
    }

    /// What belongs to a record.
    pub(crate) fn content(&self, id: &str) -> PathBuf {
        self.0.join(id)
    }

    /// The file of a record.
    pub(crate) fn record(&self, id: &str) -> PathBuf {
        self.0.join(format!("{id}.json"))
    }

    /// Everything in the directory; nothing if there is none.
    pub(crate) fn files(&self) -> io::Result<Vec<PathBuf>> {
        match fs::read_dir(&self.0) {
            Ok(entries) => entries.map(|entry| Ok(entry?.path())).collect(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }
}

/// The id of the record that a file belongs to.
pub(crate) fn id_of(file: &Path) -> String {
    file.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// Removes a file or a directory. Somebody else may do so at the same time.
pub(crate) fn remove_any(path: &Path) -> io::Result<()> {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
