#![no_main]

#[path = "../checks/token.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|presented: &str| checks::check(presented));
