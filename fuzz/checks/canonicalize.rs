//! Properties that must hold for any text. Called by the fuzzer and by the property tests, which
//! also run it on the committed corpus.

use contactd_profile::{Case, Network, Networks};

/// The built-in networks, and one with its route at the root and case-sensitive slugs.
pub(crate) fn networks() -> Networks {
    let mut networks = Networks::built_in();
    let mut own = Network::new("people", "people.example.com", "/{slug}").expect("a network");
    own.set_case(Case::Keep);
    networks.add(own).expect("a new name");
    networks
}

/// Canonicalising never panics. A canonical form is its own canonical form, is short, is ASCII, and
/// belongs to a network. Surrounding text that is ignored does not change it.
pub(crate) fn check(networks: &Networks, input: &str) {
    let Ok(profile) = networks.canonicalize(input) else { return };
    let canonical = profile.as_str();
    assert!(canonical.starts_with("https://") && canonical.is_ascii() && canonical.len() < 1_500);
    assert!(networks.network_of(&profile).is_some());
    let again = networks.canonicalize(canonical);
    assert!(again.as_ref() == Ok(&profile), "not its own canonical form");
    for spelling in [format!("\u{FEFF} {input}\n"), format!("{canonical}/"), format!("{canonical}?x=/../#y")]
    {
        // The added text may exceed the length limit.
        if spelling.chars().count() <= contactd_profile::MAX_CHARS {
            assert!(
                networks.canonicalize(&spelling).as_ref() == Ok(&profile),
                "changed by what is around it"
            );
        }
    }
}
