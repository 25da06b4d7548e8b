//! The audit journal: JSON lines in segments, each chained to the one before by a keyed hash.
//!
//! Workers append lines; one thread numbers, chains and writes all that wait in one call, and tells those who
//! wait when it is done. So a line costs its request a copy into a queue, and the hop to the writing thread is paid
//! once for all requests that were ready together. A journal that cannot be written, or that hangs, fails
//! its lines within [`PATIENCE`], and goes on by itself when writing works again.
//!
//! [`Lines`] and [`verify()`] need no writer: commands use them on the files, also while a server appends.

mod chain;
mod file;
mod format;
mod journal;
mod keep;
mod line;
mod queue;
mod read;
mod recover;
mod segment;
mod sync;
mod verify;
mod writer;

use std::time::Duration;

pub use chain::{Chain, ChainKey};
pub use journal::{Journal, Settings, Sync};
pub use keep::{compress_closed, copy, outdated, remove};
pub use line::{Entry, Line, Mark};
pub use read::Lines;
pub use segment::{Segment, list as segments};
pub use verify::{Finding, Head, Noted, Report, begins, head, verify};

/// How long a line may take to be written before those who wait for it are told that it failed.
pub const PATIENCE: Duration = Duration::from_secs(3);

/// Why the journal could not be opened, read or written. The text holds nothing of a line.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// A file could not be read or written.
    #[error("{what} {file}: {error}")]
    File {
        /// What was tried, such as "cannot read".
        what: &'static str,
        /// The file's name, without its directory.
        file: String,
        /// What the system said.
        error: std::io::Error,
    },
    /// A segment is not as it was when it was read before.
    #[error("{file} is not as it was when it was indexed")]
    Changed {
        /// The file's name, without its directory.
        file: String,
    },
    /// Another process has the journal open for writing.
    #[error("another process is writing this journal; stop it first")]
    InUse,
}
