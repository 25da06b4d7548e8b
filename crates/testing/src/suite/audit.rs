//! The index of the journals.

use std::time::Duration;

use contactd_core::store::{
    ActionFilter, AuditFilter, EntryPlace, IndexStep, IndexedLine, RequestFilter, Store,
};
use contactd_core::{
    AdminEntry, AdminRecord, Asked, AuditPosition, AuditRecord, Kind, RequestVia, ShortDigest,
};

use super::now;

fn record(node: &str, seq: u64, token: &str, outcome: &str) -> AuditRecord {
    AuditRecord {
        seq,
        at: now().plus(Duration::from_secs(seq * 40_000)),
        node: node.to_owned(),
        request_id: format!("r{seq}"),
        given_id: (seq == 2).then_some(ShortDigest([9; 16])),
        token: token.to_owned(),
        operation: Asked::Detail(Kind::Email),
        via: None,
        place: None,
        profile: (outcome != "refused").then(|| ("k1".to_owned(), ShortDigest([u8::from(seq > 2); 16]))),
        value: (outcome == "hit").then(|| ShortDigest([u8::try_from(seq).unwrap_or(0); 16])),
        outcome: outcome.to_owned(),
        count: 1,
        reason: (outcome == "refused").then(|| "rate_limited".to_owned()),
    }
}

async fn newest(store: &dyn Store, filter: &AuditFilter) -> Vec<IndexedLine> {
    let mut found = Vec::new();
    let mut take = |line| {
        found.push(line);
        true
    };
    store.visit_audit(filter, &mut take).await.expect("reads");
    found
}

/// The requests that match, by node and number.
async fn list(store: &dyn Store, requests: RequestFilter) -> Vec<AuditRecord> {
    let request = |line| match line {
        IndexedLine::Request(record) => record,
        IndexedLine::Admin(record) => panic!("an action: {record:?}"),
    };
    let found = newest(store, &AuditFilter::of_requests(requests)).await;
    let mut found: Vec<AuditRecord> = found.into_iter().map(request).collect();
    found.sort_by(|a, b| (&a.node, a.seq).cmp(&(&b.node, b.seq)));
    found
}

/// Indexing the same lines again changes nothing, and filters find the right lines.
pub async fn the_audit_index_adds_every_line_once(store: &dyn Store) {
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
    assert_eq!(list(store, RequestFilter::default()).await, records);
    let of_a = RequestFilter { tokens: Some(vec!["a".to_owned()]), ..RequestFilter::default() };
    assert_eq!(list(store, of_a).await.len(), 3);
    let of_nobody = RequestFilter { tokens: Some(vec!["c".to_owned()]), ..RequestFilter::default() };
    assert_eq!(list(store, of_nobody).await, []);
    let of_one = RequestFilter {
        profiles: Some(vec![ShortDigest([1; 16])]),
        outcome: Some("hit".to_owned()),
        operation: Some(Asked::Detail(Kind::Email)),
        ..RequestFilter::default()
    };
    assert_eq!(list(store, of_one.clone()).await, records[2..3]);
    assert_eq!(
        list(store, RequestFilter { operation: Some(Asked::Detail(Kind::Phone)), ..of_one }).await,
        []
    );
    let (since, until) = (Some(records[1].at), Some(records[3].at));
    let between = AuditFilter { since, until, ..AuditFilter::of_requests(RequestFilter::default()) };
    assert_eq!(
        newest(store, &between).await,
        [&records[2], &records[1]].map(|r| IndexedLine::Request(r.clone()))
    );
    let done = RequestFilter { outcome: Some("done".to_owned()), ..RequestFilter::default() };
    assert_eq!(list(store, done).await, [], "an outcome of actions matches no request");
    let mut first = None;
    let mut take_one = |line| {
        first = Some(line);
        false
    };
    let all = AuditFilter::of_requests(RequestFilter::default());
    store.visit_audit(&all, &mut take_one).await.expect("reads");
    assert_eq!(first, records.last().cloned().map(IndexedLine::Request), "the visitor stops after one");
    let usage = store.audit_usage(i64::MIN).await.expect("reads");
    let counts: Vec<_> = usage.iter().map(|u| (u.token.as_str(), u.hits, u.misses, u.refused)).collect();
    assert_eq!(counts, [("a", 1, 0, 0), ("b", 0, 1, 0), ("a", 1, 0, 1)]);
    let last_day = usage.last().map_or(0, |usage| usage.day);
    assert_eq!(store.audit_usage(last_day).await.expect("reads"), usage[usage.len() - 1..]);
    assert_eq!(store.audit_usage(last_day + 1).await.expect("reads"), []);
    // Lines for which nothing was disclosed after all count as refused.
    let further = AuditPosition { offset: 1_000, seq: 5, ..end };
    let correction =
        IndexStep { node: "n1", records: &[], admin: &[], undisclosed: &[(3, 5)], from: end, to: further };
    assert!(store.index_audit(correction).await.expect("indexes"));
    let hits = RequestFilter { outcome: Some("hit".to_owned()), ..RequestFilter::default() };
    assert_eq!(list(store, hits).await, records[..1]);
    let usage = store.audit_usage(i64::MIN).await.expect("reads");
    assert_eq!(usage.last().map(|u| (u.hits, u.misses, u.refused)), Some((0, 0, 2)));
    store.forget_audit("n1", 2).await.expect("forgets");
    assert_eq!(list(store, RequestFilter::default()).await.len(), 2);
    assert_eq!(store.audit_usage(i64::MIN).await.expect("reads").len(), 3);
    store.reset_audit_index("n1", records[2].at.day()).await.expect("resets");
    assert_eq!(list(store, RequestFilter::default()).await, []);
    assert_eq!(
        store.audit_usage(i64::MIN).await.expect("reads").len(),
        2,
        "days not in the journal are kept"
    );
    assert_eq!(store.audit_position("n1").await.expect("reads"), start);
}

/// The same number on two nodes is two lines; a change to one journal does not affect the other.
pub async fn the_journals_of_two_nodes_are_separate(store: &dyn Store) {
    let end = AuditPosition { segment: 1, offset: 90, seq: 1, chain: [3; 16] };
    for node in ["n1", "n2"] {
        let records = [record(node, 1, "a", "hit")];
        let from = AuditPosition::default();
        let step = IndexStep { node, records: &records, undisclosed: &[], admin: &[], from, to: end };
        assert!(store.index_audit(step).await.expect("indexes"));
    }
    assert_eq!(list(store, RequestFilter::default()).await.len(), 2);
    let usage = store.audit_usage(i64::MIN).await.expect("reads");
    assert_eq!(usage.iter().map(|usage| usage.hits).collect::<Vec<_>>(), [2], "all nodes together");
    let further = AuditPosition { seq: 2, ..end };
    let undisclosed =
        IndexStep { node: "n2", records: &[], admin: &[], undisclosed: &[(1, 1)], from: end, to: further };
    assert!(store.index_audit(undisclosed).await.expect("indexes"));
    let outcomes: Vec<_> = list(store, RequestFilter::default())
        .await
        .into_iter()
        .map(|record| (record.node, record.outcome))
        .collect();
    let of = |node: &str, outcome: &str| (node.to_owned(), outcome.to_owned());
    assert_eq!(outcomes, [of("n1", "hit"), of("n2", "refused")]);
    assert_eq!(store.indexed_nodes().await.expect("lists"), ["n1", "n2"]);
    store.reset_audit_index("n1", i64::MIN).await.expect("resets");
    assert_eq!(store.audit_position("n2").await.expect("reads"), further);
    store.forget_audit("n1", 9).await.expect("forgets");
    assert_eq!(list(store, RequestFilter::default()).await.len(), 1);
    let usage = store.audit_usage(i64::MIN).await.expect("reads");
    assert_eq!(usage.iter().map(|usage| (usage.hits, usage.refused)).collect::<Vec<_>>(), [(0, 1)]);
    store.remove_node("n2").await.expect("removes");
    assert_eq!(list(store, RequestFilter::default()).await, [], "only what belongs to n1 is left");
    assert_eq!(store.audit_usage(i64::MIN).await.expect("reads"), []);
    assert_eq!(store.audit_position("n2").await.expect("reads"), AuditPosition::default());
}

/// Which value was disclosed, ids that are kept as digests, refusals that are counted together, and actions.
pub async fn values_ids_counts_and_actions_are_indexed(store: &dyn Store) {
    let many = AuditRecord {
        request_id: String::new(),
        given_id: None,
        profile: None,
        operation: Asked::Batch,
        count: 4_995,
        ..record("n1", 4, "a", "refused")
    };
    let again = AuditRecord { place: Some(2), count: 0, ..record("n1", 5, "a", "hit") };
    let via = Some(RequestVia::Sandbox);
    let made_up = AuditRecord { via, ..record("n1", 6, "a", "hit") };
    let refused_there = AuditRecord { via, count: 3, ..record("n1", 7, "a", "refused") };
    let records =
        [record("n1", 1, "a", "hit"), record("n1", 2, "a", "miss"), many, again, made_up, refused_there];
    let entry = super::outbox::entry("export").counted(&[("rows", 7)]);
    let action = AdminRecord { seq: 3, node: "n1".to_owned(), entry: entry.clone() };
    let to = AuditPosition { segment: 1, offset: 900, seq: 7, chain: [3; 16] };
    let from = AuditPosition::default();
    let admin = std::slice::from_ref(&action);
    let step = IndexStep { node: "n1", records: &records, admin, undisclosed: &[], from, to };
    assert!(store.index_audit(step).await.expect("indexes"));

    let by_value = RequestFilter { values: Some(vec![ShortDigest([1; 16])]), ..RequestFilter::default() };
    assert_eq!(list(store, by_value).await, records[..1]);
    let by_id = |id: &str| RequestFilter {
        request: Some((id.to_owned(), vec![ShortDigest([9; 16])])),
        ..RequestFilter::default()
    };
    assert_eq!(list(store, by_id("r1")).await, records[..2], "by its id, and by the digest of another id");
    let counted = async || {
        let usage = store.audit_usage_of("n1").await.expect("reads");
        usage.iter().fold((0, 0), |(hits, refused), usage| (hits + usage.hits, refused + usage.refused))
    };
    let once = "what a batch asks for again does not count, and the sandbox does not";
    assert_eq!(counted().await, (1, 4_995), "{once}");
    let undisclosed = &[(6, 6)];
    let corrected = IndexStep { node: "n1", records: &[], admin: &[], undisclosed, from: to, to };
    assert!(store.index_audit(corrected).await.expect("indexes"));
    assert_eq!(counted().await, (1, 4_995), "there is nothing of the sandbox to take back");
    let there = store.indexed("n1", 6, 7).await.expect("reads");
    assert!(
        there.iter().all(|line| matches!(line, IndexedLine::Request(record) if record.via == via)),
        "{there:?}"
    );
    let batches = RequestFilter { operation: Some(Asked::Batch), ..RequestFilter::default() };
    assert_eq!(list(store, batches).await, records[2..3]);
    assert_eq!(store.indexed("n1", 5, 5).await.expect("reads"), [IndexedLine::Request(records[3].clone())]);
    assert_eq!(store.audit_usage_of("n2").await.expect("reads"), []);

    let actions = AuditFilter { actions: Some(ActionFilter::default()), ..AuditFilter::default() };
    assert_eq!(newest(store, &actions).await, [IndexedLine::Admin(action.clone())]);
    let later = Some(now().plus(Duration::from_secs(1)));
    assert_eq!(newest(store, &AuditFilter { since: later, ..actions.clone() }).await, []);
    assert_eq!(newest(store, &AuditFilter { until: later, ..actions.clone() }).await.len(), 1);
    let ids = [entry.entry.clone(), "unknown".to_owned()];
    let place = EntryPlace { entry: entry.entry, node: "n1".to_owned(), seq: 3 };
    assert_eq!(store.find_entries(&ids).await.expect("finds"), [place]);

    let indexed = store.indexed("n1", 2, 3).await.expect("reads");
    assert_eq!(indexed, [IndexedLine::Request(records[1].clone()), IndexedLine::Admin(action)]);
    assert_eq!(store.count_after_position("n1").await.expect("counts"), 0);
    let none = IndexStep { node: "n1", records: &records, admin: &[], undisclosed: &[], from: to, to: from };
    assert!(store.index_audit(none).await.expect("indexes"));
    assert_eq!(store.count_after_position("n1").await.expect("counts"), 7, "the position is before them");
    assert_eq!(store.check_index().await.expect("checks"), [""; 0]);
    store.forget_audit("n1", 3).await.expect("forgets");
    assert_eq!(newest(store, &actions).await, []);
}

/// Requests and actions of all nodes come in one order, by time, and the limit keeps the newest.
pub async fn lines_are_visited_newest_first(store: &dyn Store) {
    let at = |seconds: u64| now().plus(Duration::from_secs(seconds));
    let request = |node: &str, seq, seconds| AuditRecord { at: at(seconds), ..record(node, seq, "a", "hit") };
    let action = |node: &str, seq, seconds, operation| {
        let entry = AdminEntry { time: at(seconds), ..super::outbox::entry(operation) };
        AdminRecord { seq, node: node.to_owned(), entry }
    };
    // The third line of n1 was asked for before the second, and two lines have the same time.
    let of_n1 = [request("n1", 1, 10), request("n1", 2, 30), request("n1", 4, 40)];
    let of_n2 = [request("n2", 1, 25), request("n2", 2, 50)];
    let long = action("n1", 3, 20, "import");
    let short = action("n2", 3, 50, "export");
    for (node, records, admin) in [("n1", &of_n1[..], &long), ("n2", &of_n2[..], &short)] {
        let from = AuditPosition::default();
        let to = AuditPosition { segment: 1, offset: 900, seq: 4, chain: [3; 16] };
        let admin = std::slice::from_ref(admin);
        let step = IndexStep { node, records, admin, undisclosed: &[], from, to };
        assert!(store.index_audit(step).await.expect("indexes"));
    }
    let expected = [
        IndexedLine::Admin(short.clone()),
        IndexedLine::Request(of_n2[1].clone()),
        IndexedLine::Request(of_n1[2].clone()),
        IndexedLine::Request(of_n1[1].clone()),
        IndexedLine::Request(of_n2[0].clone()),
        IndexedLine::Admin(long.clone()),
        IndexedLine::Request(of_n1[0].clone()),
    ];
    let (requests, actions) = (Some(RequestFilter::default()), Some(ActionFilter::default()));
    let all = AuditFilter { requests, actions, ..AuditFilter::default() };
    assert_eq!(newest(store, &all).await, expected);
    for most in 0..=8 {
        let some = newest(store, &AuditFilter { newest: Some(most), ..all.clone() }).await;
        assert_eq!(some, expected[..usize::try_from(most).unwrap_or(0).min(7)]);
    }
    let imports = ActionFilter { operation: Some("import".to_owned()), ..ActionFilter::default() };
    let one = AuditFilter { actions: Some(imports), newest: Some(1), ..AuditFilter::default() };
    assert_eq!(newest(store, &one).await, [IndexedLine::Admin(long)], "the newest that matches");
    let (actor, outcome) = (Some("nobody".to_owned()), Some("failed".to_owned()));
    for filter in [
        ActionFilter { actor, ..ActionFilter::default() },
        ActionFilter { outcome, ..ActionFilter::default() },
        ActionFilter { subjects: vec![vec!["k1:00".to_owned()]], ..ActionFilter::default() },
    ] {
        assert_eq!(newest(store, &AuditFilter { actions: Some(filter), ..AuditFilter::default() }).await, []);
    }
    assert_eq!(newest(store, &AuditFilter::default()).await, [], "neither requests nor actions");
}
