//! The index of the journals.

use std::time::Duration;

use contactd_core::store::{AuditFilter, IndexStep};
use contactd_core::{AuditPosition, AuditRecord, Kind, ProfileDigest};

use super::{FullStore, now};

fn record(node: &str, seq: u64, token: &str, outcome: &str) -> AuditRecord {
    AuditRecord {
        seq,
        at: now().plus(Duration::from_secs(seq * 40_000)),
        node: node.to_owned(),
        request_id: format!("r{seq}"),
        token: token.to_owned(),
        operation: Kind::Email,
        profile: (outcome != "refused").then(|| ("k1".to_owned(), ProfileDigest([u8::from(seq > 2); 16]))),
        outcome: outcome.to_owned(),
        reason: (outcome == "refused").then(|| "rate_limited".to_owned()),
    }
}

async fn list(store: &impl FullStore, filter: AuditFilter) -> Vec<AuditRecord> {
    let mut found = Vec::new();
    let take = |record| {
        found.push(record);
        true
    };
    store.visit_audit(&filter, take).await.expect("reads");
    found
}

/// Indexing the same lines again changes nothing, and filters find the right lines.
pub async fn the_audit_index_adds_every_line_once(store: &impl FullStore) {
    let records = [
        record("n1", 1, "a", "hit"),
        record("n1", 2, "b", "miss"),
        record("n1", 3, "a", "hit"),
        record("n1", 4, "a", "refused"),
    ];
    let start = store.audit_position("n1").await.expect("reads");
    assert_eq!(start, AuditPosition::default());
    let end = AuditPosition { segment: 1, offset: 900, seq: 4, chain: [9; 16] };
    let step = IndexStep { node: "n1", records: &records, undisclosed: &[], from: start, to: end };
    for is_first in [true, false] {
        assert_eq!(store.index_audit(step).await.expect("indexes"), is_first);
        assert_eq!(store.audit_position("n1").await.expect("reads"), end);
    }
    assert_eq!(list(store, AuditFilter::default()).await, records);
    let of_a = AuditFilter { tokens: Some(vec!["a".to_owned()]), ..AuditFilter::default() };
    assert_eq!(list(store, of_a).await.len(), 3);
    let of_nobody = AuditFilter { tokens: Some(vec!["c".to_owned()]), ..AuditFilter::default() };
    assert_eq!(list(store, of_nobody).await, []);
    let later = AuditFilter {
        profiles: Some(vec![ProfileDigest([1; 16])]),
        since: Some(records[1].at),
        until: Some(records[3].at),
        outcome: Some("hit".to_owned()),
        ..AuditFilter::default()
    };
    assert_eq!(list(store, later).await, records[2..3]);
    let mut first = None;
    let take_one = |record| {
        first = Some(record);
        false
    };
    store.visit_audit(&AuditFilter::default(), take_one).await.expect("reads");
    assert_eq!(first.as_ref(), records.first(), "the visitor stops after one");
    let usage = store.audit_usage().await.expect("reads");
    let counts: Vec<_> = usage.iter().map(|u| (u.token.as_str(), u.hits, u.misses, u.refused)).collect();
    assert_eq!(counts, [("a", 1, 0, 0), ("b", 0, 1, 0), ("a", 1, 0, 1)]);
    // Lines for which nothing was disclosed after all count as refused.
    let further = AuditPosition { offset: 1_000, seq: 5, ..end };
    let correction = IndexStep { node: "n1", records: &[], undisclosed: &[(3, 5)], from: end, to: further };
    assert!(store.index_audit(correction).await.expect("indexes"));
    let hits = AuditFilter { outcome: Some("hit".to_owned()), ..AuditFilter::default() };
    assert_eq!(list(store, hits).await, records[..1]);
    let usage = store.audit_usage().await.expect("reads");
    assert_eq!(usage.last().map(|u| (u.hits, u.misses, u.refused)), Some((0, 0, 2)));
    store.forget_audit("n1", 2).await.expect("forgets");
    assert_eq!(list(store, AuditFilter::default()).await.len(), 2);
    assert_eq!(store.audit_usage().await.expect("reads").len(), 3);
    store.reset_audit_index("n1", records[2].at.day()).await.expect("resets");
    assert_eq!(list(store, AuditFilter::default()).await, []);
    assert_eq!(store.audit_usage().await.expect("reads").len(), 2, "days not in the journal are kept");
    assert_eq!(store.audit_position("n1").await.expect("reads"), start);
}

/// The same number on two nodes is two lines; a change to one journal does not affect the other.
pub async fn the_journals_of_two_nodes_are_separate(store: &impl FullStore) {
    let end = AuditPosition { segment: 1, offset: 90, seq: 1, chain: [3; 16] };
    for node in ["n1", "n2"] {
        let records = [record(node, 1, "a", "hit")];
        let from = AuditPosition::default();
        let step = IndexStep { node, records: &records, undisclosed: &[], from, to: end };
        assert!(store.index_audit(step).await.expect("indexes"));
    }
    assert_eq!(list(store, AuditFilter::default()).await.len(), 2);
    let usage = store.audit_usage().await.expect("reads");
    assert_eq!(usage.iter().map(|usage| usage.hits).collect::<Vec<_>>(), [2], "all nodes together");
    let further = AuditPosition { seq: 2, ..end };
    let undisclosed = IndexStep { node: "n2", records: &[], undisclosed: &[(1, 1)], from: end, to: further };
    assert!(store.index_audit(undisclosed).await.expect("indexes"));
    let outcomes: Vec<_> = list(store, AuditFilter::default())
        .await
        .into_iter()
        .map(|record| (record.node, record.outcome))
        .collect();
    let of = |node: &str, outcome: &str| (node.to_owned(), outcome.to_owned());
    assert_eq!(outcomes, [of("n1", "hit"), of("n2", "refused")]);
    store.reset_audit_index("n1", i64::MIN).await.expect("resets");
    assert_eq!(store.audit_position("n2").await.expect("reads"), further);
    store.forget_audit("n1", 9).await.expect("forgets");
    assert_eq!(list(store, AuditFilter::default()).await.len(), 1);
    let usage = store.audit_usage().await.expect("reads");
    assert_eq!(usage.iter().map(|usage| (usage.hits, usage.refused)).collect::<Vec<_>>(), [(0, 1)]);
}
