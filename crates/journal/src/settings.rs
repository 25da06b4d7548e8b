//! The operator's settings for the journal.

use std::path::PathBuf;

/// When a line counts as written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sync {
    /// When the operating system has it. It survives a killed process, and is on disk within 100 ms.
    #[default]
    Os,
    /// When it is on disk.
    Disk,
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
}
