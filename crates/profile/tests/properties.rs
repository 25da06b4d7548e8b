//! Properties that hold for any text, tested with random text and with the fuzzer's corpus.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

#[path = "../../../fuzz/checks/canonicalize.rs"]
mod checks;

use contactd_profile::Networks;
use proptest::prelude::*;

/// Generates text that passes the first checks often enough to reach the last ones.
fn url_like() -> impl Strategy<Value = String> {
    let scheme = prop::sample::select(vec!["https://", "http://", "", "//", "HTTPS://", "ftp://", "https:/"]);
    let host = prop::sample::select(vec![
        "linkedin.com",
        "www.linkedin.com",
        "de.linkedin.com",
        "LinkedIn.com.",
        "xing.com",
        "www.xing.com",
        "people.example.com",
        "www.people.example.com",
        "lnkd.in",
        "evil.example",
        "linkedin.com:443",
        "a@linkedin.com",
    ]);
    let route = prop::sample::select(vec![
        "/in/",
        "/IN/",
        "/mwlite/in/",
        "/comm/m/in/",
        "/pub/",
        "/profile/",
        "/hp/",
        "/of/",
        "/",
        "/company/",
        "//",
        "/in/../in/",
    ]);
    let slug = prop_oneof![
        "[a-zA-Z0-9_-]{0,45}",
        "\\PC{0,20}",
        "(%[0-9A-Fa-f]{2}){0,12}",
        "AC[ow]AA[a-zA-Z0-9_-]{33,35}",
        "[a-z]{3,8}/[0-9a-f]{1,4}/[0-9a-f]{1,3}/[0-9a-f]{0,3}",
        "[İẞΣςσKﬀǅÅé\u{301}\u{308}\u{200D}\u{200C}👩🏽-]{1,30}",
    ];
    let tail = prop::sample::select(vec!["", "/", "///", "/de", "?x=1", "#y", "/%2e%2e", "/details/x/", " "]);
    (scheme, host, route, slug, tail).prop_map(|(a, b, c, d, e)| format!("{a}{b}{c}{d}{e}"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_url_like_text_holds(input in url_like()) {
        checks::check(&checks::networks(), &input);
    }

    #[test]
    fn any_text_holds(input in any::<String>()) {
        checks::check(&checks::networks(), &input);
    }

    #[test]
    fn letter_case_and_encoding_of_a_plain_slug_do_not_matter(slug in "[a-z0-9][a-z0-9_-]{2,38}") {
        let networks = Networks::built_in();
        let plain = networks.canonicalize(&format!("https://linkedin.com/in/{slug}"));
        let encoded: String = slug.bytes().map(|b| format!("%{b:02x}")).collect();
        for other in [slug.to_uppercase(), encoded] {
            prop_assert_eq!(&networks.canonicalize(&format!("http://www.LINKEDIN.com/IN/{other}/")), &plain);
        }
    }
}

#[test]
fn the_fuzzers_corpus_holds() {
    let networks = checks::networks();
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/canonicalize");
    let mut replayed = 0;
    for entry in std::fs::read_dir(corpus).expect("a corpus") {
        let bytes = std::fs::read(entry.expect("an entry").path()).expect("reads");
        checks::check(&networks, &String::from_utf8_lossy(&bytes));
        replayed += 1;
    }
    assert!(replayed >= 50, "only {replayed} inputs in the corpus");
}

#[test]
fn a_huge_input_is_refused_at_once() {
    let networks = Networks::built_in();
    for piece in ["a", "/", "%41", "é", " ", "https://linkedin.com/in/", "\u{200B}"] {
        let huge = piece.repeat(4_000_000 / piece.len());
        assert!(networks.canonicalize(&huge).is_err());
        assert!(
            networks.canonicalize(&format!("https://linkedin.com/in/{huge}")).is_err()
                || piece.trim().is_empty()
                || piece == "/"
                || piece == "\u{200B}"
        );
    }
}
