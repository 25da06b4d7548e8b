//! A file of any content is imported or refused.

use std::path::Path;

use contactd_core::{Cancel, DigestKey, DigestKeys, DiskBudget, Networks, SuppressionList, unobserved};
use contactd_import::{Files, Format, Input, Rejects, UploadedFiles};
use contactd_import::{ReadOptions, ReadRows, RowChecks, UploadedFile, Verdict};

/// Reading a file never panics and always ends, and every batch can be read. Nor does describing or previewing it, and a preview
/// says what the import does. `room` is a directory for the file.
pub(crate) fn check(room: &Path, format: Option<Format>, bytes: &[u8]) {
    let path = room.join("input");
    std::fs::write(&path, bytes).expect("writes");
    let options = ReadOptions { source: Some("crm".to_owned()), ..ReadOptions::default() };
    let input = Input::File(path.clone());
    let mut files = Files::new(vec![input], format, options.clone(), disk(room), Rejects::nowhere());
    let networks = Networks::built_in();
    let suppressions = SuppressionList::new(DigestKeys::new(vec![DigestKey::new(&[1; 32])]).expect("a key"));
    let checks = RowChecks { networks: &networks, suppressions: &suppressions, sort_key: &|_| 0 };
    let read = files.read(&checks, &unobserved, &Cancel::default());
    if format.is_none() {
        let file = UploadedFile { path, name: "input".to_owned() };
        check_preview(room, &file, &options, &checks, read.as_ref().ok());
    }
    let Ok(read) = read else { return };
    assert!(read.records <= read.rows && read.rejected <= read.rows, "{} rows", read.rows);
    while files.next_batch().expect("what was read is kept").is_some() {}
}

/// A file that is imported is described and previewed, and its rows have the same verdicts.
fn check_preview(
    room: &Path,
    file: &UploadedFile,
    options: &ReadOptions,
    checks: &RowChecks<'_>,
    read: Option<&ReadRows>,
) {
    let files = UploadedFiles::new(disk(room));
    let shape = files.describe(file, options);
    let rows = files.preview(file, options, checks, 20);
    let Some(read) = read else { return };
    let (shape, rows) = (shape.expect("it is imported"), rows.expect("it is imported").rows);
    assert_eq!(Some(shape.format), read.inputs.first().map(|input| input.format));
    let count = |verdict| rows.iter().filter(|row| row.verdict == verdict).count() as u64;
    if rows.len() as u64 == read.rows {
        assert_eq!(count(Verdict::LoadedInPart), read.partly_rejected);
        assert_eq!(count(Verdict::Rejected), read.rejected - read.partly_rejected);
    }
}

fn disk(room: &Path) -> DiskBudget {
    DiskBudget::new(room.to_owned())
}
