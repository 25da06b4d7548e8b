//! The index of the journals.

use std::time::Duration;

use contactd_core::store::{AuditFilter, IndexStep, IndexedLine};
use contactd_core::{AdminRecord, AuditPosition, AuditRecord, Kind, ShortDigest};

use super::{FullStore, now};

fn record(node: &str, seq: u64, token: &str, outcome: &str) -> AuditRecord {
    AuditRecord {
        seq,
        at: now().plus(Duration::from_secs(seq * 40_000)),
        node: node.to_owned(),
        request_id: format!("r{seq}"),
        given_id: (seq == 2).then_some(ShortDigest([9; 16])),
        token: token.to_owned(),
        operation: Kind::Email,
        profile: (outcome != "refused").then(|| ("k1".to_owned(), ShortDigest([u8::from(seq > 2); 16]))),
        value: (outcome == "hit").then(|| ShortDigest([u8::try_from(seq).unwrap_or(0); 16])),
        outcome: outcome.to_owned(),
        count: 1,
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
    let step =
        IndexStep { node: "n1", records: &records, undisclosed: &[], admin: &[], from: start, to: end };
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
        profiles: Some(vec![ShortDigest([1; 16])]),
        since: Some(records[1].at),
        until: Some(records[3].at),
        outcome: Some("hit".to_owned()),
        ..AuditFilter::default()
    };
    assert_eq!(list(store, later).await, records[2..3]);
    let done = AuditFilter { outcome: Some("done".to_owned()), ..AuditFilter::default() };
    assert_eq!(list(store, done).await, [], "an outcome of actions matches no request");
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
    let correction =
        IndexStep { node: "n1", records: &[], admin: &[], undisclosed: &[(3, 5)], from: end, to: further };
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
        let step = IndexStep { node, records: &records, undisclosed: &[], admin: &[], from, to: end };
        assert!(store.index_audit(step).await.expect("indexes"));
    }
    assert_eq!(list(store, AuditFilter::default()).await.len(), 2);
    let usage = store.audit_usage().await.expect("reads");
    assert_eq!(usage.iter().map(|usage| usage.hits).collect::<Vec<_>>(), [2], "all nodes together");
    let further = AuditPosition { seq: 2, ..end };
    let undisclosed =
        IndexStep { node: "n2", records: &[], admin: &[], undisclosed: &[(1, 1)], from: end, to: further };
    assert!(store.index_audit(undisclosed).await.expect("indexes"));
    let outcomes: Vec<_> = list(store, AuditFilter::default())
        .await
        .into_iter()
        .map(|record| (record.node, record.outcome))
        .collect();
    let of = |node: &str, outcome: &str| (node.to_owned(), outcome.to_owned());
    assert_eq!(outcomes, [of("n1", "hit"), of("n2", "refused")]);
    assert!(store.count_foreign("n1").await.expect("counts") > 0);
    store.reset_audit_index("n1", i64::MIN).await.expect("resets");
    assert_eq!(store.audit_position("n2").await.expect("reads"), further);
    store.forget_audit("n1", 9).await.expect("forgets");
    assert_eq!(list(store, AuditFilter::default()).await.len(), 1);
    let usage = store.audit_usage().await.expect("reads");
    assert_eq!(usage.iter().map(|usage| (usage.hits, usage.refused)).collect::<Vec<_>>(), [(0, 1)]);
    store.remove_foreign("n1").await.expect("removes");
    assert_eq!(list(store, AuditFilter::default()).await, [], "only what belongs to n1 is left");
    assert_eq!(store.audit_usage().await.expect("reads"), []);
    assert_eq!(store.audit_position("n2").await.expect("reads"), AuditPosition::default());
}

/// Which value was disclosed, ids that are kept as digests, refusals that are counted together, and actions.
pub async fn values_ids_counts_and_actions_are_indexed(store: &impl FullStore) {
    let many = AuditRecord {
        request_id: String::new(),
        given_id: None,
        profile: None,
        count: 4_995,
        ..record("n1", 4, "a", "refused")
    };
    let records = [record("n1", 1, "a", "hit"), record("n1", 2, "a", "miss"), many];
    let entry = super::outbox::entry("export").counted(&[("rows", 7)]);
    let action = AdminRecord { seq: 3, node: "n1".to_owned(), entry: entry.clone() };
    let to = AuditPosition { segment: 1, offset: 900, seq: 4, chain: [3; 16] };
    let from = AuditPosition::default();
    let admin = std::slice::from_ref(&action);
    let step = IndexStep { node: "n1", records: &records, admin, undisclosed: &[], from, to };
    assert!(store.index_audit(step).await.expect("indexes"));

    let by_value = AuditFilter { values: Some(vec![ShortDigest([1; 16])]), ..AuditFilter::default() };
    assert_eq!(list(store, by_value).await, records[..1]);
    let by_id = |id: &str| AuditFilter {
        request: Some((id.to_owned(), vec![ShortDigest([9; 16])])),
        ..AuditFilter::default()
    };
    assert_eq!(list(store, by_id("r1")).await, records[..2], "by its id, and by the digest of another id");
    let usage = store.audit_usage_of("n1").await.expect("reads");
    assert_eq!(usage.iter().map(|usage| usage.refused).sum::<u64>(), 4_995);
    assert_eq!(store.audit_usage_of("n2").await.expect("reads"), []);

    assert_eq!(store.list_admin(None, None).await.expect("lists"), std::slice::from_ref(&action));
    let later = Some(now().plus(Duration::from_secs(1)));
    assert_eq!(store.list_admin(later, None).await.expect("lists"), []);
    assert_eq!(store.list_admin(None, later).await.expect("lists").len(), 1);
    let ids = [entry.entry.clone(), "unknown".to_owned()];
    assert_eq!(store.find_entries(&ids).await.expect("finds"), [entry.entry]);

    let indexed = store.indexed("n1", 2, 3).await.expect("reads");
    assert_eq!(indexed, [IndexedLine::Request(records[1].clone()), IndexedLine::Admin(action)]);
    assert_eq!(store.count_foreign("n1").await.expect("counts"), 0);
    assert!(store.count_foreign("n2").await.expect("counts") >= 4, "all of them belong to another node");
    assert_eq!(store.check_index().await.expect("checks"), [""; 0]);
    store.forget_audit("n1", 3).await.expect("forgets");
    assert_eq!(store.list_admin(None, None).await.expect("lists"), []);
}
