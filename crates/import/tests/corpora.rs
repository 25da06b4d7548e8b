//! The inputs of the fuzz targets for files, replayed.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

#[path = "../../../fuzz/checks/import.rs"]
mod checks;
#[path = "../../../fuzz/checks/seeds.rs"]
mod seeds;

use contactd_import::Format;

fn replay(target: &str, format: Format) {
    let room = tempfile::tempdir().expect("a directory");
    for input in seeds::inputs(target) {
        checks::check(room.path(), Some(format), &input);
        checks::check(room.path(), None, &input);
    }
}

#[test]
fn any_csv_is_read_to_its_end_or_refused() {
    replay("csv", Format::Csv);
}

#[test]
fn any_jsonl_is_read_to_its_end_or_refused() {
    replay("jsonl", Format::Jsonl);
}

#[test]
fn any_parquet_is_read_to_its_end_or_refused() {
    replay("parquet", Format::Parquet);
}
