//! The audit journal: JSON lines in segments, each chained to the one before by a keyed hash.
//!
//! Workers append lines to a queue. One thread numbers and chains all queued lines, writes them in one call, and
//! wakes the waiting workers. So a line costs its request one copy into a queue, and requests that are ready
//! together share the cost of the switch to the writing thread. If writing fails or hangs, lines fail within
//! [`WRITE_TIMEOUT`]; the journal recovers by itself when writing works again.
//!
//! At least once a second, and after a few thousand lines, a checkpoint reveals the key of the lines before it and signs them. The key that signs is
//! destroyed at the end of its epoch, so nobody can change what was sealed before. `docs/journal.md` has the format.
//!
//! [`Lines`] and [`Verifier`] need no writer: commands use them on the files, even while a server appends.

mod chain;
mod epoch;
mod epochs;
mod error;
mod faults;
mod file;
mod files;
mod follow;
mod format;
mod journal;
mod key_dir;
mod line;
mod lists;
mod locked_dir;
mod proof;
mod queue;
mod read;
mod recover;
mod retention;
mod rotation;
mod seals;
mod segment;
mod settings;
mod shared;
mod source;
mod sync;
mod unread;
mod verification;
mod verify;
mod walk;
mod writer;

use std::time::Duration;

pub(crate) use chain::ChainKey;
pub use error::JournalError;
pub use file::sync_dir;
pub use files::JournalReader;
pub use follow::Resumed;
pub use journal::Journal;
pub use key_dir::{KeyDir, is_journal_key};
pub use line::{Checkpoint, Entry, Line, Mark};
pub use lists::{ListFiles, NewList};
pub use proof::verify_proof;
pub use read::Lines;
pub use retention::{Outdated, compress_closed, copy, outdated, remove};
pub use segment::{Segment, list as segments};
pub use settings::{JournalSettings, OpenedBy, Sync};
pub use verification::{
    JournalFault, JournalHead, KnownLine, NotedHead, Outage, ProofMade, RootSource, Roots, Seen, Verification,
};
pub use verify::Verifier;

/// How long to wait for a line to be written before it counts as failed.
pub const WRITE_TIMEOUT: Duration = Duration::from_secs(3);
