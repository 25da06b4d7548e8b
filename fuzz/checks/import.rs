//! A file of any content is imported or refused.

use std::path::Path;

use contactd_core::services::{RecordSource, RowChecks};
use contactd_core::{Cancel, DigestKey, DigestKeys, Networks, SuppressionList, unobserved};
use contactd_import::{Defaults, Files, Format, Input, Rejects};

/// Reading a file never panics and always ends, and every batch can be read. `room` is a directory for the file.
pub(crate) fn check(room: &Path, format: Option<Format>, bytes: &[u8]) {
    let path = room.join("input");
    std::fs::write(&path, bytes).expect("writes");
    let defaults = Defaults { source: Some("crm".to_owned()), ..Defaults::default() };
    let mut files =
        Files::new(vec![Input::File(path)], format, defaults, room.to_owned(), Rejects::nowhere());
    let networks = Networks::built_in();
    let suppressions = SuppressionList::new(DigestKeys::new(vec![DigestKey::new(&[1; 32])]).expect("a key"));
    let checks = RowChecks { networks: &networks, suppressions: &suppressions, sort_key: &|_| 0 };
    let Ok(read) = files.read(&checks, &unobserved, &Cancel::default()) else { return };
    assert!(read.records <= read.rows && read.rejected <= read.rows, "{} rows", read.rows);
    while files.next_batch().expect("what was read is kept").is_some() {}
}
