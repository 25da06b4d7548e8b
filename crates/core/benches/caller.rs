//! The cost of recognising a caller and of checking the suppression list. Run with `cargo bench -p contactd-core`.
#![expect(clippy::expect_used, reason = "a benchmark that cannot run should say so")]

use contactd_core::{
    Callers, DigestKey, DigestKeys, Kind, Networks, Subject, SuppressionList, Timestamp, Token, TokenSecret,
};
use divan::Bencher;

fn main() {
    divan::main();
}

const NOW: Timestamp = Timestamp::from_seconds(1_800_000_000);

/// A table with `count` tokens, and one of them.
fn callers(count: usize) -> (Callers, TokenSecret) {
    let callers = Callers::default();
    let secrets: Vec<TokenSecret> =
        (0..count).map(|_| TokenSecret::generate().expect("randomness")).collect();
    let known = secrets
        .iter()
        .map(|secret| (secret.hash(), Token::new("bench", NOW).expect("randomness"), 0))
        .collect();
    callers.replace(known, NOW);
    (callers, secrets.into_iter().next_back().expect("a token"))
}

#[divan::bench(args = [1, 10_000])]
fn known_token_among(bencher: Bencher<'_, '_>, count: usize) {
    let (callers, secret) = callers(count);
    bencher.bench(|| callers.find(divan::black_box(secret.expose()), NOW).is_ok());
}

#[divan::bench]
fn mistyped_token(bencher: Bencher<'_, '_>) {
    let (callers, secret) = callers(1);
    let mistyped = format!("{}_", &secret.expose()[..41]);
    bencher.bench(|| callers.find(divan::black_box(&mistyped), NOW).is_ok());
}

#[divan::bench]
fn suppression_check_of_a_profile_and_a_value(bencher: Bencher<'_, '_>) {
    let list = SuppressionList::new(DigestKeys::new(vec![DigestKey::new(&[7; 32])]).expect("a key"));
    let profile =
        Networks::built_in().canonicalize("https://linkedin.com/in/ada-quell-1a2b3c").expect("a profile");
    bencher.bench(|| {
        let person = list.contains(Subject::Profile(divan::black_box(&profile)));
        person | list.check_value(Kind::Phone, divan::black_box("+14155550123")).is_out
    });
}
