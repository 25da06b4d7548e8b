#![no_main]
// The format of a backup is a module of the binary, so it is compiled in here.
#![expect(dead_code, reason = "writing is not fuzzed")]

#[path = "../../crates/contactd/src/archive.rs"]
mod archive;
#[path = "../checks/backup.rs"]
mod checks;
#[path = "../../crates/contactd/src/durable.rs"]
mod durable;
#[path = "../../crates/contactd/src/unfinished.rs"]
mod unfinished;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    thread_local!(static ROOM: tempfile::TempDir = tempfile::tempdir().expect("a directory"));
    ROOM.with(|room| checks::check(room.path(), bytes));
});
