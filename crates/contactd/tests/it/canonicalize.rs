//! `contactd canonicalize`

use crate::service::Site;

#[test]
fn lines_are_answered_in_order_with_the_reason_and_a_hint() {
    let site = Site::empty();
    let input = "https://de.linkedin.com/in/Ada-Quell/\r\n\nhttps://xing.com/profile/Mira_Quell\nhttps://linkedin.com/company/x\nin/x";
    let printed = site.ok_with_input(&["canonicalize"], input);
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines[0], r#"{"canonical":"https://linkedin.com/in/ada-quell","network":"linkedin"}"#);
    assert_eq!(
        lines[1],
        r#"{"canonical":null,"reason":"empty","hint":"Skip records that have no profile URL."}"#
    );
    assert_eq!(lines[2], r#"{"canonical":"https://xing.com/profile/Mira_Quell","network":"xing"}"#);
    assert!(lines[3].starts_with(r#"{"canonical":null,"reason":"not_person","hint":""#));
    assert!(lines[4].contains("not_a_url"));
    assert_eq!(lines.len(), 5);
    assert!(!site.data().exists(), "it needs no data directory");
}

#[test]
fn json_values_of_every_type_are_answered() {
    let site = Site::empty();
    let input = "\"https://linkedin.com/in/ada-quell\\u00e9\"\nnull\n{\"a\":1}\n1e+308\nnonsense\n";
    let printed = site.ok_with_input(&["canonicalize", "--jsonl"], input);
    let reasons: Vec<String> = printed
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"))
        .map(|told| told["reason"].as_str().unwrap_or("-").to_owned())
        .collect();
    assert_eq!(reasons, ["-", "not_string", "not_string", "not_string", "not_json"]);
}

#[test]
fn arguments_are_answered_too() {
    let site = Site::empty();
    let printed = site.ok(&["canonicalize", "linkedin.com/in/ada-quell", "x"]);
    assert_eq!(printed.lines().count(), 2);
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
        assert_eq!(told["canonical"], vector["canonical"], "{}", vector["input"]);
        assert_eq!(told["reason"], vector["reason"], "{}", vector["input"]);
    }
}
