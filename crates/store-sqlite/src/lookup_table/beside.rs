//! Making a table while a large import fills an empty store: of the rows that it inserts, so that nothing is read again.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use contactd_core::Label;

use super::making::{Failure, Made, Making};
use crate::profile_rows::NewRow;

/// How many batches of rows may wait for the thread.
const WAITING: usize = 4;
/// How often a thread that waits for rows looks whether an erasure has stopped it.
const LOOK_PAUSE: Duration = Duration::from_millis(100);

/// A table that a thread of its own makes. If it cannot, [`MadeBeside::finish`] returns none. Dropped, it leaves no file.
pub(crate) struct MadeBeside {
    /// `None` after the last rows.
    rows: SyncSender<Option<Vec<NewRow>>>,
    thread: JoinHandle<Result<Made, Failure>>,
}

impl MadeBeside {
    pub(crate) fn begin(dir: &Path) -> Option<Self> {
        let (rows, waiting) = sync_channel(WAITING);
        let dir: PathBuf = dir.to_owned();
        let make = move || make(&dir, &waiting);
        let thread = std::thread::Builder::new().name("import-table".to_owned()).spawn(make).ok()?;
        Some(Self { rows, thread })
    }

    /// Adds rows. Those of a place come after each other, and places in ascending order.
    pub(crate) fn add(&self, rows: Vec<NewRow>) {
        // If the thread has ended, `finish` says so.
        let _ = self.rows.send(Some(rows));
    }

    pub(crate) fn finish(self) -> Option<Made> {
        let _ = self.rows.send(None);
        self.thread.join().ok()?.ok()
    }
}

fn make(dir: &Path, waiting: &Receiver<Option<Vec<NewRow>>>) -> Result<Made, Failure> {
    let mut making = Making::begin(dir, false)?;
    loop {
        match waiting.recv_timeout(LOOK_PAUSE) {
            Ok(Some(rows)) => {
                for row in rows.iter().filter(|row| row.held.detail.label == Label::Personal) {
                    let detail = &row.held.detail;
                    making.add(row.id, row.profile.key(), detail.value.expose(), detail.expires_at)?;
                }
            }
            Ok(None) => return making.finish(),
            Err(RecvTimeoutError::Timeout) => making.stop_if_gone()?,
            // The import is rolled back.
            Err(RecvTimeoutError::Disconnected) => return Err(Failure::stopped()),
        }
    }
}
