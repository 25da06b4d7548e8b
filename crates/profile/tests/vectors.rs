//! The profile-URL rules as test vectors: each input with its canonical form or its reason.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

use contactd_profile::Networks;
use serde_json::Value;

fn vectors(file: &str) -> Vec<Value> {
    file.lines().map(|line| serde_json::from_str(line).expect("a JSON line")).collect()
}

fn check(file: &str) {
    let networks = Networks::built_in();
    let mut wrong = Vec::new();
    let mut checked = 0;
    for vector in vectors(file) {
        // Values that are not strings are refused when the body is parsed, not here.
        let Some(input) = vector["input"].as_str() else {
            continue;
        };
        let got = networks.canonicalize(input);
        let (canonical, reason) = match &got {
            Ok(profile) => (Some(profile.as_str()), None),
            Err(reason) => (None, Some(reason.code())),
        };
        if canonical != vector["canonical"].as_str() || reason != vector["reason"].as_str() {
            wrong.push(format!("{input:.120?}: got {canonical:?} {reason:?}, want {vector:.400}"));
        }
        if let (Ok(profile), Some(network)) = (&got, vector["network"].as_str()) {
            assert_eq!(networks.network_of(profile), Some(network), "{input:?}");
        }
        checked += 1;
    }
    assert!(wrong.is_empty(), "{} of {checked} wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(checked > 50, "only {checked} vectors");
}

#[test]
fn every_published_vector_holds() {
    check(include_str!("vectors.jsonl"));
}

#[test]
fn every_rule_holds() {
    check(include_str!("rules.jsonl"));
}
