//! The files of tables: `lookup-<id>.table` in the data directory. Whoever writes one holds its lock until the details name it, or
//! it is gone. A file that is not named and not locked was left by a process that was killed.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use contactd_lookup_table::TableId;

/// How long an erasure waits for whoever writes a table to notice that it has to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) fn path(dir: &Path, id: TableId) -> PathBuf {
    dir.join(format!("lookup-{}.table", id.shown()))
}

/// Makes the file of a new table, and locks it.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
    file.lock()?;
    // Root may work on the directory of another user, whose server reads the table.
    if let Some(owner) = path.parent().and_then(|dir| dir.metadata().ok()) {
        let _ = fchown(&file, Some(owner.uid()), Some(owner.gid()));
    }
    Ok(file)
}

/// Whether a file that is being written was taken away: whoever writes it has to stop.
pub(crate) fn is_gone(file: &File) -> io::Result<bool> {
    Ok(file.metadata()?.nlink() == 0)
}

/// The files of tables, but for this one.
pub(crate) fn others(dir: &Path, named: Option<TableId>) -> io::Result<Vec<PathBuf>> {
    let named = named.map(|id| path(dir, id));
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let is_table =
            name.to_str().is_some_and(|name| name.starts_with("lookup-") && name.ends_with(".table"));
        if is_table && named.as_ref() != Some(&entry.path()) {
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// Removes a file that nobody writes.
pub(crate) fn remove_abandoned(path: &Path) -> io::Result<()> {
    let file = File::open(path)?;
    match file.try_lock() {
        Ok(()) => std::fs::remove_file(path),
        Err(TryLockError::WouldBlock) => Ok(()),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Removes a file and what is in it. Whoever writes it is stopped first.
pub(crate) fn destroy(path: &Path) -> io::Result<()> {
    let file = match OpenOptions::new().write(true).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let until = Instant::now() + STOP_TIMEOUT;
    loop {
        match file.try_lock() {
            Ok(()) => break,
            Err(TryLockError::WouldBlock) if Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(10));
            }
            Err(TryLockError::WouldBlock) => return Err(io::ErrorKind::TimedOut.into()),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    file.set_len(0)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn destroying_a_file_waits_until_whoever_writes_it_has_stopped_and_leaves_nothing_in_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("lookup-00.table");
        let mut written = create(&path).expect("creates");
        let other = written.try_clone().expect("opens");
        std::thread::scope(|scope| {
            let destroying = scope.spawn(|| destroy(&path));
            while !is_gone(&written).expect("looks") {
                written.write_all(b"+14155550101").expect("writes");
            }
            std::thread::sleep(Duration::from_millis(50));
            assert!(!destroying.is_finished());
            written.unlock().expect("unlocks");
            destroying.join().expect("ends").expect("destroys");
        });
        assert_eq!(other.metadata().expect("looks").len(), 0);
        destroy(&path).expect("there is nothing to destroy");
    }
}
