//! Another process that runs as this node, from a copy of its data directory.

use std::time::{Duration, Instant};

use contactd_core::Timestamp;

/// Between two reports.
const REPORT_EVERY: Duration = Duration::from_secs(60);

/// What is known about a process that has the place of this node.
#[derive(Debug)]
pub(crate) struct Rival {
    /// When it was heard first.
    seen_at: Timestamp,
    reported: Option<Instant>,
}

impl Rival {
    /// The place is taken, by a process whose last heartbeat came at this time.
    pub(crate) fn note(noted: &mut Option<Self>, seen_at: Timestamp, node: &str) {
        let rival = noted.get_or_insert(Self { seen_at, reported: None });
        // One that was killed says nothing more.
        let is_alive = rival.seen_at != seen_at;
        if is_alive && rival.reported.is_none_or(|reported| reported.elapsed() >= REPORT_EVERY) {
            rival.reported = Some(Instant::now());
            tracing::error!(
                node,
                "another process runs as this node: the data directory was copied. While the other one runs, this one answers no \
                 lookups and ships nothing to the database. Stop one of them. To make this data directory that of a new node, stop this \
                 process, delete everything in the directory but keys/digest-*.key, and start it again"
            );
        }
    }
}
