//! Copies of journals: what the suite does not ask of one process.

use contactd_core::store::{CopiedLine, CopyStep, JournalCopies};
use contactd_core::{AuditPosition, SignedLine, Timestamp};
use contactd_store_postgres::PostgresStore;
use contactd_testing::TestServer;

use crate::fixture::{new, open, sql};

fn at(seq: u64) -> AuditPosition {
    AuditPosition { segment: 1, offset: seq * 10, seq, chain: [7; 16] }
}

fn line(seq: u64) -> SignedLine {
    SignedLine {
        seq,
        begins_segment: seq == 1,
        is_checkpoint: false,
        is_seal: seq == 2,
        list: None,
        retires: None,
        text: format!("line {seq}"),
    }
}

fn lines(from: u64, through: u64) -> Vec<SignedLine> {
    (from..=through).map(line).collect()
}

async fn add(store: &PostgresStore, from: AuditPosition, to: AuditPosition, lines: &[SignedLine]) -> bool {
    let step = CopyStep { node: "a", from, to, lines, seals: &[] };
    store.add_to_copy(step).await.expect("adds")
}

async fn copied(store: &PostgresStore) -> Vec<u64> {
    let copies = store.list_copies().await.expect("lists");
    let last = copies.iter().find(|copy| copy.is_last).expect("a copy");
    let lines: Vec<CopiedLine> = store.copied_lines(last.copy, 0, 1_000).await.expect("reads");
    lines.into_iter().map(|line| line.seq).collect()
}

#[tokio::test]
async fn two_processes_that_ship_the_same_lines_add_them_once() {
    let url = TestServer::shared().database();
    let (one, other) = (open(&url).await, open(&url).await);
    let mut from = AuditPosition::default();
    for seq in 1..=20 {
        let new = lines(seq, seq);
        let (first, second) = tokio::join!(add(&one, from, at(seq), &new), add(&other, from, at(seq), &new));
        assert!(first && second);
        from = at(seq);
    }
    assert_eq!(copied(&one).await, (1..=20).collect::<Vec<_>>());
}

#[tokio::test]
async fn the_copy_of_a_node_that_is_gone_is_removed_when_it_is_old() {
    let (url, store) = new().await;
    let nothing = AuditPosition::default();
    sql(&url, "INSERT INTO nodes (id, name, version) VALUES ('a', 'first', '1')");
    assert!(add(&store, nothing, at(3), &lines(1, 3)).await);
    assert_eq!(store.list_copies().await.expect("lists")[0].name, "first");
    let later = Timestamp::parse("2100-01-01").expect("a time");
    store.remove_old_copies(later).await.expect("removes");
    assert_eq!(copied(&store).await, [1, 2, 3], "its node is in the cluster");
    sql(&url, "DELETE FROM nodes");
    assert_eq!(store.list_copies().await.expect("lists")[0].name, "first");
    let earlier = Timestamp::parse("2020-01-01").expect("a time");
    store.remove_old_copies(earlier).await.expect("removes");
    assert_eq!(copied(&store).await, [1, 2, 3], "it is not old");
    store.remove_old_copies(later).await.expect("removes");
    assert_eq!(store.list_copies().await.expect("lists"), []);
}
