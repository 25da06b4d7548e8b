//! What an operator decides about the journal.

use std::path::PathBuf;

/// When a line counts as written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sync {
    /// When the operating system has it: it survives a killed process, and is on disk within 100 ms.
    #[default]
    Os,
    /// When it is on disk.
    Disk,
}

/// What an operator decides about the journal.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Its directory.
    pub dir: PathBuf,
    /// When a line counts as written.
    pub sync: Sync,
    /// How large a segment gets before the next is begun.
    pub segment_bytes: u64,
    /// Which node this is.
    pub node: String,
    /// The id of the key that profiles' digests are made with.
    pub digest_key: String,
}
