#![no_main]

#[path = "../checks/submission.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|body: &[u8]| checks::check(body));
