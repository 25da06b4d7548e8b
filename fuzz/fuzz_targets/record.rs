#![no_main]

#[path = "../checks/record.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|row: &str| {
    thread_local!(static NETWORKS: contactd_core::Networks = contactd_core::Networks::built_in());
    NETWORKS.with(|networks| checks::check(networks, row));
});
