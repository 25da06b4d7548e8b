#![no_main]

#[path = "../checks/canonicalize.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|input: &str| {
    thread_local!(static NETWORKS: contactd_profile::Networks = checks::networks());
    NETWORKS.with(|networks| checks::check(networks, input));
});
