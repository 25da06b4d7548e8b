//! A file of any content is a complete backup or is refused, and nothing is written outside of the directory it is unpacked to.

use std::path::Path;

use contactd_core::unobserved;

use crate::archive;

/// Reading never panics, and unpacking accepts only what reading accepts. What is not packed is packed first. Returns
/// whether it is a backup.
pub(crate) fn check(room: &Path, bytes: &[u8]) -> bool {
    let (file, within) = (room.join("backup"), room.join("within"));
    let is_packed = bytes.starts_with(b"\x28\xB5\x2F\xFD");
    let packed = if is_packed { bytes.to_vec() } else { zstd::encode_all(bytes, 1).expect("packs") };
    std::fs::write(&file, packed).expect("writes");
    let target = within.join("target");
    std::fs::create_dir_all(&target).expect("a directory");
    let read = archive::read(&file, None, &unobserved);
    let unpacked = archive::read(&file, Some(&target), &unobserved);
    assert!(read.is_ok() || unpacked.is_err(), "unpacked, although it cannot be read");
    let beside: Vec<_> = std::fs::read_dir(&within).expect("lists").collect();
    assert_eq!(beside.len(), 1, "something was written beside the directory");
    std::fs::remove_dir_all(&within).expect("removes");
    unpacked.is_ok()
}
