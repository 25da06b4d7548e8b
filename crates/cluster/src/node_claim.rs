//! Which process may run as a node: one at a time, from one data directory.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use contactd_core::Timestamp;

/// Between two reports.
const REPORT_EVERY: Duration = Duration::from_secs(60);

/// Names a data directory of this machine since its start. A copy of the directory has another name, also on the copy of a
/// virtual machine, because that was started too. `None` if it cannot be told.
pub fn data_dir_id(dir: &Path) -> Option<Vec<u8>> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let dir = dir.metadata().ok()?;
    Some(format!("{}:{}:{}", boot.trim(), dir.dev(), dir.ino()).into_bytes())
}

/// What is known about a process that has the place of this node.
#[derive(Debug)]
pub(crate) struct OtherProcess {
    /// When it was heard first.
    seen_at: Timestamp,
    reported: Option<Instant>,
}

impl OtherProcess {
    /// The place is taken, by a process whose last heartbeat came at this time.
    pub(crate) fn note(noted: &mut Option<Self>, seen_at: Timestamp, node: &str) {
        let other_process = noted.get_or_insert(Self { seen_at, reported: None });
        // One that was killed says nothing more.
        let is_alive = other_process.seen_at != seen_at;
        if is_alive && other_process.reported.is_none_or(|reported| reported.elapsed() >= REPORT_EVERY) {
            other_process.reported = Some(Instant::now());
            tracing::error!(
                node,
                "another process runs as this node: the data directory was copied. While the other one runs, this one answers no \
                 lookups and ships nothing to the database. Stop one of them. To make this data directory that of a new node, stop this \
                 process, delete everything in the directory but keys/digest-*.key, and start it again"
            );
        }
    }
}
