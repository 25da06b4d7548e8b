//! `contactd canonicalize`

use crate::service::Site;
use crate::transcript::check;

#[test]
fn lines_arguments_and_json_values_are_answered_in_order_with_the_reason_and_a_hint() {
    check(&Site::empty(), "canonicalize");
}

#[test]
fn every_published_vector_holds_through_the_binary() {
    let vectors: Vec<serde_json::Value> = include_str!("../../../profile/tests/vectors.jsonl")
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let input: String = vectors.iter().map(|vector| format!("{}\n", vector["input"])).collect();
    let printed = Site::empty().ok_with_input(&["canonicalize", "--jsonl"], input);
    let told: Vec<serde_json::Value> =
        printed.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(told.len(), vectors.len());
    for (told, vector) in told.iter().zip(&vectors) {
        assert_eq!(told["input"], vector["input"]);
        assert_eq!(told["canonical"], vector["canonical"], "{}", vector["input"]);
        assert_eq!(told["reason"], vector["reason"], "{}", vector["input"]);
    }
}
