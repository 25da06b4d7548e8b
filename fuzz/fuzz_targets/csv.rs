#![no_main]

#[path = "../checks/import.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    thread_local!(static ROOM: tempfile::TempDir = tempfile::tempdir().expect("a directory"));
    ROOM.with(|room| checks::check(room.path(), Some(contactd_import::Format::Csv), bytes));
});
