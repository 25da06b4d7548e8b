//! What has to hold for any text whatever. Called by the fuzzer, by the property tests, and
//! on the committed corpus in the tests.

use contactd_profile::{Case, Network, Networks};

/// The built-in networks, and one whose route begins at the root and whose case matters.
pub(crate) fn networks() -> Networks {
    let mut networks = Networks::built_in();
    let mut own = Network::new("people", "people.example.com", "/{slug}").expect("a network");
    own.set_case(Case::Keep);
    networks.add(own).expect("a new name");
    networks
}

/// No panic; a canonical form is its own canonical form, is short, plain ASCII, and belongs
/// to a network; what is around it does not change it.
pub(crate) fn check(networks: &Networks, input: &str) {
    let Ok(profile) = networks.canonicalize(input) else { return };
    let canonical = profile.as_str();
    assert!(canonical.starts_with("https://") && canonical.is_ascii() && canonical.len() < 1_500);
    assert!(networks.network_of(&profile).is_some());
    let again = networks.canonicalize(canonical);
    assert!(again.as_ref() == Ok(&profile), "not its own canonical form");
    for spelling in [format!("\u{FEFF} {input}\n"), format!("{canonical}/"), format!("{canonical}?x=/../#y")]
    {
        // Trimming makes room within the limit of length, adding may exceed it.
        if spelling.chars().count() <= contactd_profile::MAX_CHARS {
            assert!(
                networks.canonicalize(&spelling).as_ref() == Ok(&profile),
                "changed by what is around it"
            );
        }
    }
}
