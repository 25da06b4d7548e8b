//! `contactd canonicalize`

use crate::service::Site;

#[test]
fn lines_are_answered_in_order_with_the_reason_and_a_hint() {
    let site = Site::empty();
    let input = "https://de.linkedin.com/in/Ada-Quell/\r\n\nhttps://xing.com/profile/Mira_Quell\nhttps://linkedin.com/company/x\nin/x";
    let printed = site.ok_with_input(&["canonicalize"], input);
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(
        lines,
        [
            r#"{"input":"https://de.linkedin.com/in/Ada-Quell/","canonical":"https://linkedin.com/in/ada-quell","network":"linkedin"}"#,
            r#"{"input":"","canonical":null,"reason":"empty","hint":"Skip records that have no profile URL."}"#,
            r#"{"input":"https://xing.com/profile/Mira_Quell","canonical":"https://xing.com/profile/Mira_Quell","network":"xing"}"#,
            r#"{"input":"https://linkedin.com/company/x","canonical":null,"reason":"not_person","hint":"Send a person's profile, not a company, a school, a job or a post."}"#,
            r#"{"input":"in/x","canonical":null,"reason":"not_a_url","hint":"Send the whole address, such as https://www.linkedin.com/in/name, and nothing around it."}"#,
        ]
    );
    assert!(!site.data().exists(), "it needs no data directory");
}

#[test]
fn json_values_of_every_type_are_answered() {
    let site = Site::empty();
    let values = [
        r#""https://linkedin.com/in/ada-quell\u00e9""#,
        "null",
        "{\"a\":1}",
        "1e+308",
        "12345678901234567890123",
    ];
    let input = format!("{}\nnon\"sense\r\n", values.join("\n"));
    let printed = site.ok_with_input(&["canonicalize", "--jsonl"], input);
    let reasons: Vec<String> = printed
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"))
        .map(|told| told["reason"].as_str().unwrap_or("-").to_owned())
        .collect();
    assert_eq!(reasons, ["-", "not_string", "not_string", "not_string", "not_string", "not_json"]);
    for (line, value) in printed.lines().zip(values) {
        assert!(line.starts_with(&format!("{{\"input\":{value},\"canonical\":")), "{line}");
    }
    assert!(
        printed
            .lines()
            .last()
            .is_some_and(|line| line.starts_with(r#"{"input":"non\"sense","canonical":null,"#)),
        "{printed}"
    );
}

#[test]
fn arguments_are_answered_too() {
    let site = Site::empty();
    let printed = site.ok(&["canonicalize", "linkedin.com/in/ada-quell", "x"]);
    let expected = "{\"input\":\"linkedin.com/in/ada-quell\",\"canonical\":\"https://linkedin.com/in/ada-quell\",\"network\":\"linkedin\"}\n\
        {\"input\":\"x\",\"canonical\":null,\"reason\":\"not_a_url\",\"hint\":\"Send the whole address, such as https://www.linkedin.com/in/name, and nothing around it.\"}";
    assert_eq!(printed, expected);
    let latin = site.run_with(&["canonicalize"], b"linkedin.com/in/ad\xE9\n", &[]);
    assert!(
        latin.stdout.starts_with(
            "{\"input\":\"linkedin.com/in/ad\u{FFFD}\",\"canonical\":null,\"reason\":\"bad_encoding\","
        ),
        "{latin:?}"
    );
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
