//! Properties of any row and any token, checked with random rows and with the fuzzer's inputs.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

#[path = "../../../fuzz/checks/record.rs"]
mod checks;
#[path = "../../../fuzz/checks/seeds.rs"]
mod seeds;
#[path = "../../../fuzz/checks/token.rs"]
mod token;

use contactd_core::Networks;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_rows_pass_the_checks(
        phone in "[+0-9 ()./x-]{0,20}",
        email in "[a-zA-Zé.+]{0,12}@?[a-zA-Zü.-]{0,16}",
        rest in ",,\\PC{0,3},[0-9-]{0,12},[a-z]{0,3},\\PC{0,12},(US|DE|),(crm|)",
    ) {
        checks::check(&Networks::built_in(), &format!("{phone},{email},{rest}"));
    }
}

#[test]
fn the_fuzzers_corpus_passes_the_checks() {
    let networks = Networks::built_in();
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/record");
    let mut replayed = 0;
    for entry in std::fs::read_dir(corpus).expect("a corpus") {
        let bytes = std::fs::read(entry.expect("an entry").path()).expect("reads");
        checks::check(&networks, &String::from_utf8_lossy(&bytes));
        replayed += 1;
    }
    assert!(replayed >= 20, "only {replayed} inputs in the corpus");
}

#[test]
fn the_fuzzers_tokens_pass_the_checks() {
    for input in seeds::inputs("token") {
        token::check(&String::from_utf8_lossy(&input));
    }
}
