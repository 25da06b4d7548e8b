//! What several processes and nodes do at once: claims, usage of nodes, pruning, futures that are dropped.

use std::time::Duration;

use contactd_core::store::{
    AuditIndex, Changes, DayHits, IndexStep, Maintenance, Outbox, StoreError, Suppressions, Tokens, Usage,
};
use contactd_core::{
    Actor, AdminEntry, Asked, AuditPosition, AuditRecord, Kind, ShortDigest, SubjectDigest, Token,
    TokenSecret, UsageDelta, Via,
};
use contactd_testing::TestServer;

use crate::fixture::{client, digest, new, now, open, sql};

fn entry(operation: &'static str) -> AdminEntry {
    AdminEntry::new(&Actor::new("olga", Via::CommandLine), operation, now())
}

#[tokio::test]
async fn an_entry_is_claimed_by_one_node_and_taken_over_when_that_is_gone() {
    let (url, store) = new().await;
    let (first, second) = (entry("export"), entry("subject"));
    store.add_entry(&first).await.expect("adds");
    sql(
        &url,
        "INSERT INTO nodes (id, name, version, lease_ms) VALUES ('a', 'a', '1', 60000), ('b', 'b', '1', 60000)",
    );
    let claimed = async |node: &str| {
        let entries = store.claim_entries(node).await.expect("claims");
        entries.into_iter().map(|entry| entry.operation).collect::<Vec<String>>()
    };
    assert_eq!(claimed("a").await, ["export"]);
    assert_eq!(claimed("b").await, [""; 0]);
    store.add_entry(&second).await.expect("adds");
    assert_eq!(claimed("b").await, ["subject"]);
    assert_eq!(claimed("a").await, ["export"], "it is still its own");
    assert!(store.has_entry(&first.entry).await.expect("asks"));
    sql(&url, "UPDATE nodes SET seen_at = now() - interval '10 minutes' WHERE id = 'a'");
    assert_eq!(claimed("b").await, ["subject"], "the lease has just ended");
    sql(&url, "UPDATE nodes SET seen_at = now() - interval '12 minutes' WHERE id = 'a'");
    assert_eq!(claimed("b").await, ["export", "subject"]);
    sql(&url, "DELETE FROM nodes WHERE id = 'b'");
    assert_eq!(claimed("a").await, ["export", "subject"]);
    store.remove_entries(std::slice::from_ref(&first.entry)).await.expect("removes");
    assert!(!store.has_entry(&first.entry).await.expect("asks"));
}

#[tokio::test]
async fn a_change_whose_entry_is_not_kept_as_it_is_fails() {
    let (url, store) = new().await;
    let suppressed = async || {
        let digest = [digest(7)];
        store.suppress(&digest, now(), Some(&entry("suppress"))).await
    };
    for (make, remove) in [
        ("CREATE RULE hide AS ON INSERT TO outbox DO INSTEAD NOTHING", "DROP RULE hide ON outbox"),
        ("CREATE RULE hide AS ON INSERT TO outbox DO ALSO DELETE FROM outbox", "DROP RULE hide ON outbox"),
        (
            "CREATE FUNCTION hide() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
             CREATE TRIGGER hide BEFORE INSERT ON outbox FOR EACH ROW EXECUTE FUNCTION hide()",
            "DROP FUNCTION hide CASCADE",
        ),
        (
            "CREATE FUNCTION hide() RETURNS trigger LANGUAGE plpgsql AS
                'BEGIN NEW.record := replace(NEW.record, ''suppress'', ''sweep''); RETURN NEW; END';
             CREATE TRIGGER hide BEFORE INSERT ON outbox FOR EACH ROW EXECUTE FUNCTION hide()",
            "DROP FUNCTION hide CASCADE",
        ),
    ] {
        sql(&url, make);
        let failed = suppressed().await;
        assert!(matches!(failed, Err(StoreError::NotNoted)), "{make}: {failed:?}");
        assert_eq!(store.list_suppressions().await.expect("lists").len(), 0, "{make}");
        sql(&url, remove);
        assert_eq!(suppressed().await.expect("suppresses"), 1, "{make}");
        sql(&url, "DELETE FROM suppressions");
    }
}

#[tokio::test]
async fn usage_of_nodes_adds_up_and_is_no_change() {
    let (_, store) = new().await;
    let (secret, token) =
        (TokenSecret::generate().expect("randomness"), Token::new("crm", now()).expect("randomness"));
    store.create_token(&secret.hash(), &token, None).await.expect("creates");
    let before = store.changes().await.expect("watches");
    let day = now().day();
    let counted = |hits, last_used_at| {
        (day, UsageDelta { token: token.id.clone(), hits, misses: 1, refused: 0, last_used_at })
    };
    let later = now().plus(Duration::from_secs(60));
    for (node, hits, at) in
        [("a", 5, Some(later)), ("b", 3, Some(now())), ("a", 5, None), ("a", 4, Some(now()))]
    {
        store.store_usage(node, &[counted(hits, at)]).await.expect("stores");
    }
    let of = |hits| [DayHits { token: token.id.clone(), day, hits }];
    assert_eq!(store.hits_by_day(day).await.expect("reads"), of(8));
    let by_no_node = UsageDelta { token: token.id.clone(), hits: 2, ..UsageDelta::default() };
    store.record_usage(&[by_no_node], now()).await.expect("records");
    assert_eq!(store.hits_since(&token.family, day).await.expect("reads"), 10);
    let (_, listed) = store.list_tokens().await.expect("lists").remove(0);
    assert_eq!((listed.hits, listed.last_used_at), (10, Some(later)));
    assert_eq!(store.changes().await.expect("watches"), before);
}

#[tokio::test]
async fn a_hundred_thousand_people_are_suppressed_in_one_change() {
    let (_, store) = new().await;
    let everybody: Vec<SubjectDigest> = (0..100_000).map(digest).collect();
    assert_eq!(store.suppress(&everybody, now(), None).await.expect("suppresses"), 100_000);
    assert_eq!(store.suppress(&everybody, now(), None).await.expect("suppresses"), 0);
    assert_eq!(store.unsuppress(&everybody[1..], None).await.expect("unsuppresses"), 99_999);
    assert_eq!(store.list_suppressions().await.expect("lists"), everybody[..1]);
    assert_eq!(
        store.suppress(&everybody, now(), None).await.expect("suppresses"),
        99_999,
        "all but the one left"
    );
}

#[tokio::test]
async fn what_all_nodes_have_seen_is_forgotten() {
    let (url, store) = new().await;
    for number in 1..=4 {
        store.suppress(&[digest(number)], now(), None).await.expect("suppresses");
    }
    for number in 1..=2 {
        store.unsuppress(&[digest(number)], None).await.expect("unsuppresses");
    }
    // The node has not seen the last removal.
    sql(
        &url,
        "INSERT INTO nodes (id, name, version, access_number) VALUES ('a', 'a', '1', 5), ('b', 'b', '1', 6)",
    );
    let numbers = || sql(&url, "SELECT string_agg(number::text, ',' ORDER BY number) FROM changes");
    let tidy = async || open(&url).await.tidy().await.expect("tidies");
    tidy().await;
    assert_eq!(numbers(), "1,2,3,4,5,6", "a writer may still ask for them");
    sql(&url, MUCH_LATER);
    tidy().await;
    assert_eq!(numbers(), "5,6");
    assert_eq!(sql(&url, "SELECT string_agg(number::text, ',') FROM suppressions WHERE is_removed"), "6");
    sql(&url, "UPDATE nodes SET access_number = 6");
    tidy().await;
    assert_eq!(numbers(), "6", "the nodes stand there");
    assert_eq!(sql(&url, "SELECT count(*) FROM suppressions"), "2");
    // A node that is silent for a week does not hold up the others.
    sql(&url, "UPDATE nodes SET access_number = 0");
    store.unsuppress(&[digest(3)], None).await.expect("unsuppresses");
    sql(&url, MUCH_LATER);
    sql(&url, "UPDATE nodes SET access_number = 2007 WHERE id = 'b'");
    tidy().await;
    assert_eq!(numbers(), "6,2007");
    sql(&url, "UPDATE nodes SET seen_at = now() - interval '8 days' WHERE id = 'a'");
    tidy().await;
    assert_eq!(numbers(), "2007");
    assert_eq!(store.check().await.expect("checks"), [""; 0]);
}

/// After two hours with many changes that were forgotten.
const MUCH_LATER: &str = "UPDATE changes SET changed_at = changed_at - interval '2 hours';
    UPDATE counters SET number = number + 2000";

#[tokio::test]
async fn the_change_at_which_all_nodes_stand_stays_however_old_it_is() {
    let (url, store) = new().await;
    sql(
        &url,
        "UPDATE counters SET number = 3000;
         INSERT INTO nodes (id, name, version, access_number, details_number) VALUES ('a', 'a', '1', 50, 60);
         INSERT INTO changes SELECT counter, number, decode(md5(counter || number), 'hex'), now() - interval '8 days'
             FROM (VALUES ('access', 49), ('access', 50), ('details', 60), ('details', 3000)) AS made (counter, number)",
    );
    store.suppress(&[digest(1)], now(), None).await.expect("suppresses");
    store.tidy().await.expect("tidies");
    let left = sql(&url, "SELECT counter, number FROM changes ORDER BY counter, number");
    assert_eq!(left, "access|50\naccess|3001\ndetails|60\ndetails|3000");
}

#[tokio::test]
async fn changes_of_the_last_hour_and_the_newest_thousand_stay() {
    let (url, store) = new().await;
    sql(
        &url,
        "UPDATE counters SET number = 1500;
         INSERT INTO nodes (id, name, version, access_number, details_number) VALUES ('a', 'a', '1', 1500, 1500);
         INSERT INTO changes SELECT counter, made, decode(md5(counter || made), 'hex'),
             now() - CASE WHEN made = 7 THEN interval '50 minutes' ELSE interval '2 hours' END
             FROM counters, generate_series(1, 1500) AS made",
    );
    store.tidy().await.expect("tidies");
    let left = "SELECT counter, count(*), min(number), min(number) FILTER (WHERE number > 7) FROM changes
        GROUP BY counter ORDER BY counter";
    assert_eq!(
        sql(&url, left),
        "access|1001|7|501\naccounts|1001|7|501\ndetails|1001|7|501\nusage|1001|7|501"
    );
}

#[tokio::test]
async fn tidying_passes_over_rows_that_a_writer_holds() {
    let (url, store) = new().await;
    sql(
        &url,
        "INSERT INTO tombstones SELECT place, 1 FROM generate_series(1, 12000) AS place;
         INSERT INTO changes VALUES ('details', 1, 'x'); UPDATE counters SET number = 1 WHERE counter = 'details'",
    );
    let writer = client(&url).await;
    writer
        .batch_execute("BEGIN; DELETE FROM contactd.tombstones WHERE place IN (3, 7000)")
        .await
        .expect("locks");
    store.tidy().await.expect("tidies");
    assert_eq!(sql(&url, "SELECT count(*), min(place), max(place) FROM tombstones"), "2|3|7000");
}

#[tokio::test]
async fn a_change_that_is_given_up_midway_leaves_no_transaction_open() {
    let (url, store) = new().await;
    let other = client(&url).await;
    other.batch_execute("BEGIN; SELECT 1 FROM contactd.counters FOR UPDATE").await.expect("locks");
    for number in 0..3 {
        let (people, mut waited) = ([digest(number)], tokio::time::interval(Duration::from_millis(50)));
        waited.tick().await;
        tokio::select! {
            _ = store.suppress(&people, now(), None) => panic!("the counter is locked"),
            _ = waited.tick() => {}
        }
    }
    other.batch_execute("COMMIT").await.expect("unlocks");
    for number in 10..20 {
        assert_eq!(store.suppress(&[digest(number)], now(), None).await.expect("suppresses"), 1);
    }
    assert_eq!(store.list_suppressions().await.expect("lists").len(), 10, "what was given up is not there");
    let open =
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in%'";
    while other.query_one(open, &[]).await.expect("reads").get::<_, i64>(0) > 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn processes_that_index_the_same_lines_add_them_once() {
    let url = TestServer::shared().database();
    let (one, other) = (open(&url).await, open(&url).await);
    let record = |seq: u64| AuditRecord {
        seq,
        at: now().plus(Duration::from_millis(seq)),
        node: "n1".to_owned(),
        request_id: format!("r{seq}"),
        given_id: None,
        token: format!("tok_{}", seq % 7),
        operation: Asked::Detail(Kind::Phone),
        via: None,
        place: None,
        profile: Some(("k1".to_owned(), ShortDigest([u8::try_from(seq % 251).unwrap_or(0); 16]))),
        value: None,
        outcome: "miss".to_owned(),
        reason: None,
        count: 1,
    };
    let mut from = AuditPosition::default();
    for round in 0..5 {
        let records: Vec<AuditRecord> = (round * 2_000 + 1..=(round + 1) * 2_000).map(record).collect();
        let to = AuditPosition { segment: 1, offset: round + 1, seq: (round + 1) * 2_000, chain: [7; 16] };
        let step = IndexStep { node: "n1", records: &records, admin: &[], undisclosed: &[], from, to };
        let (first, second) = tokio::join!(one.index_audit(step), other.index_audit(step));
        assert_ne!(first.expect("indexes"), second.expect("indexes"), "one of them");
        from = to;
    }
    let usage = one.audit_usage(i64::MIN).await.expect("reads");
    assert_eq!(usage.iter().map(|usage| usage.misses).sum::<u64>(), 10_000);
    let mut seqs = Vec::new();
    let filter = contactd_core::store::AuditFilter::of_requests(Default::default());
    let mut visit = |line: contactd_core::store::IndexedLine| {
        seqs.push(line.seq());
        true
    };
    one.visit_audit(&filter, &mut visit).await.expect("reads");
    assert_eq!(seqs, (1..=10_000).rev().collect::<Vec<u64>>());
}
