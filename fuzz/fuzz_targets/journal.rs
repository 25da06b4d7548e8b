#![no_main]

#[path = "../checks/journal.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    thread_local!(static WRITTEN: checks::Written = checks::Written::new());
    WRITTEN.with(|written| checks::check(written, bytes));
});
