#![no_main]

#[path = "../checks/http.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    thread_local!(static OTHERS: std::cell::RefCell<checks::Others> = checks::Others::new().into());
    OTHERS.with_borrow_mut(|others| checks::check(others, input));
});
