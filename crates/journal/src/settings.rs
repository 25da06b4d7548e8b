//! The operator's settings for the journal.

use std::path::PathBuf;
use std::time::Duration;

use crate::key_dir::KeyDir;

/// When a line counts as written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sync {
    /// When the operating system has it. It survives a killed process, and is on disk within 100 ms.
    #[default]
    Os,
    /// When it is on disk.
    Disk,
}

/// Who opens a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenedBy {
    /// A server, whose start and stop are recorded.
    Server,
    /// A command, for a moment.
    Command,
}

/// The operator's settings for the journal.
#[derive(Clone, Debug)]
pub struct JournalSettings {
    /// Its directory.
    pub dir: PathBuf,
    /// When a line counts as written.
    pub sync: Sync,
    /// The size at which the next segment begins.
    pub segment_bytes: u64,
    /// The name of this node.
    pub node: String,
    /// The id of the key for profile digests.
    pub digest_key: String,
    /// Where the keys of the journal are.
    pub keys: KeyDir,
    /// How long the keys of an epoch are used.
    pub epoch: Duration,
    /// Who opens it.
    pub opened_by: OpenedBy,
}
