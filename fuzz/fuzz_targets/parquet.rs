#![no_main]

#[path = "../checks/import.rs"]
mod checks;

/// The reader panics on some damaged files, which the importer expects. Any other panic is a crash.
fn room() -> tempfile::TempDir {
    contactd_core::panics::report_only_where(|place| {
        eprintln!("panicked at {place}");
        std::process::abort();
    });
    tempfile::tempdir().expect("a directory")
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    thread_local!(static ROOM: tempfile::TempDir = room());
    ROOM.with(|room| checks::check(room.path(), Some(contactd_import::Format::Parquet), bytes));
});
