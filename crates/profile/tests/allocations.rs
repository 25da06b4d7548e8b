//! A refused URL allocates nothing. An accepted URL allocates once or twice.

use contactd_profile::Networks;

fn allocations_of(url: &str) -> u64 {
    let networks = Networks::built_in();
    allocation_counter::measure(|| {
        let _ = std::hint::black_box(networks.canonicalize(std::hint::black_box(url)));
    })
    .count_total
}

#[test]
fn a_refusal_allocates_nothing() {
    for line in include_str!("vectors.jsonl").lines() {
        let vector: serde_json::Value = serde_json::from_str(line).unwrap_or_default();
        if let (Some(input), Some(reason)) = (vector["input"].as_str(), vector["reason"].as_str()) {
            assert_eq!(allocations_of(input), 0, "{reason}: {input:.80}");
        }
    }
}

#[test]
fn an_accepted_url_allocates_once_or_twice() {
    assert_eq!(allocations_of("https://www.linkedin.com/in/ada-quell-1a2b3c"), 1);
    assert_eq!(allocations_of("https://www.linkedin.com/in/Ada-Quell-1A2B3C/?trk=x"), 1);
    assert_eq!(allocations_of("https://www.linkedin.com/in/jos%C3%A9-quell"), 1);
    assert_eq!(allocations_of("https://www.linkedin.com/in/JOS%C3%89-quell"), 2);
    assert_eq!(allocations_of("https://linkedin.com/pub/adaquell/1/2/3"), 1);
}
