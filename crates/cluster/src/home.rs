//! Which data directory a node runs in.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Names a data directory of this machine since its start. A copy of the directory has another name, also on the copy of a
/// virtual machine, because that was started too. `None` if it cannot be told.
pub fn home_of(dir: &Path) -> Option<Vec<u8>> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let dir = dir.metadata().ok()?;
    Some(format!("{}:{}:{}", boot.trim(), dir.dev(), dir.ino()).into_bytes())
}
