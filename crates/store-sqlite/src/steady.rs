//! Writing much without delaying lookups.

use std::fs::File;
use std::path::{Path, PathBuf};

/// How much of a log may be in memory only, in bytes.
const UNSYNCED: u64 = 1 << 20;

/// Syncs the write-ahead log of a long transaction a little at a time, while the transaction grows.
///
/// Otherwise the commit writes hundreds of megabytes at once. The journal of the same file system waits for them, and with it
/// every lookup: its audit line has to be written first.
pub(crate) struct SteadySync {
    log: PathBuf,
    synced: u64,
}

impl SteadySync {
    /// Follows the log of a database.
    pub(crate) fn of(database: &Path) -> Self {
        let mut log = database.as_os_str().to_owned();
        log.push("-wal");
        Self { log: log.into(), synced: 0 }
    }

    /// Syncs the log if it has grown by much. If that fails, the commit, which syncs it again, reports it.
    pub(crate) fn sync(&mut self) {
        let Ok(length) = self.log.metadata().map(|log| log.len()) else { return };
        // SQLite has no locks on this file, which closing it would release.
        if length >= self.synced + UNSYNCED && File::open(&self.log).and_then(|log| log.sync_data()).is_ok() {
            self.synced = length;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_synced_whenever_it_has_grown_by_much() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut steady = SteadySync::of(&dir.path().join("details.db"));
        steady.sync();
        assert_eq!(steady.synced, 0, "there is no log yet");
        let log = File::create(dir.path().join("details.db-wal")).expect("creates");
        for (length, synced) in [(UNSYNCED - 1, 0), (UNSYNCED, UNSYNCED), (2 * UNSYNCED - 1, UNSYNCED)] {
            log.set_len(length).expect("grows");
            steady.sync();
            assert_eq!(steady.synced, synced);
        }
    }
}
