//! Properties that must hold for any text. Called by the fuzzer and by the property tests, which
//! also run it on the committed corpus.

use contactd_profile::{Case, Network, Networks};

/// The built-in networks, one with its route at the root and case-sensitive slugs, and one that is a sub-domain of that.
pub(crate) fn networks() -> Networks {
    let mut networks = Networks::built_in();
    let mut own = Network::new("people", "people.example.com", "/{slug}").expect("a network");
    own.set_case(Case::Keep);
    networks.add(own).expect("a new name");
    networks
        .add(Network::new("friends", "www.people.example.com", "/of/{slug}").expect("a network"))
        .expect("a new name");
    networks
}

/// Canonicalising never panics. A canonical form is its own canonical form, is short, is ASCII, and
/// belongs to a network. Surrounding text that is ignored does not change it.
pub(crate) fn check(networks: &Networks, input: &str) {
    let found = networks.canonicalize(input);
    // The usual spelling is read in another way than any other.
    if let Some(rest) = input.strip_prefix("https://") {
        assert!(
            networks.canonicalize(&format!("HTTPS://{rest}")) == found,
            "changed by the case of the scheme"
        );
    }
    let Ok(profile) = found else { return };
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
