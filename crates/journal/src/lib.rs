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
pub use files::{Files, KeySource};
pub use journal::Journal;
pub use keep::{compress_closed, copy, outdated, remove};
pub use line::{Entry, Line, Mark};
pub use read::Lines;
pub use segment::{Segment, list as segments};
pub use settings::{Settings, Sync};
pub use verify::{begins, head, verify};

/// How long a line may take to be written before those who wait for it are told that it failed.
pub const PATIENCE: Duration = Duration::from_secs(3);
