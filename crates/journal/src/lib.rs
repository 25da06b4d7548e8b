//! The audit journal: JSON lines in segments, each chained to the one before by a keyed hash.
//!
//! Workers append lines to a queue. One thread numbers and chains all queued lines, writes them in one call, and
//! wakes the waiting workers. So a line costs its request one copy into a queue, and requests that are ready
//! together share the cost of the switch to the writing thread. If writing fails or hangs, lines fail within
//! [`PATIENCE`]; the journal recovers by itself when writing works again.
//!
//! [`Lines`] and [`verify()`] need no writer: commands use them on the files, even while a server appends.

mod chain;
mod file;
mod files;
mod format;
mod journal;
mod keep;
mod line;
mod queue;
mod read;
mod recover;
mod segment;
mod settings;
mod shared;
mod sync;
mod verify;
mod writer;

use std::time::Duration;

pub use chain::ChainKey;
pub use file::sync_dir;
pub use files::{JournalDir, KeyLoader};
pub use journal::Journal;
pub use keep::{compress_closed, copy, outdated, remove};
pub use line::{Entry, Line, Mark};
pub use read::Lines;
pub use segment::{Segment, list as segments};
pub use settings::{JournalSettings, Sync};
pub use verify::{begins, head, verify};

/// How long to wait for a line to be written before it counts as failed.
pub const PATIENCE: Duration = Duration::from_secs(3);
