//! Leases.

use std::thread;
use std::time::Duration;

use contactd_core::store::copying::ChangePoint;
use contactd_store_postgres::{Heartbeat, HeartbeatAnswer, PostgresStore, Registration, Speaker};

use crate::fixture::{new, sql};

async fn register(store: &PostgresStore, process: &[u8], beat: i64) -> bool {
    register_at(store, None, process, beat).await
}

async fn register_at(store: &PostgresStore, data_dir: Option<&[u8]>, process: &[u8], beat: i64) -> bool {
    let registration = Registration {
        speaker: Speaker { node: "n1", process, beat },
        name: "one",
        version: "0",
        data_dir,
        details_number: 0,
        wiped_number: 0,
    };
    store.register_node(&registration).await.expect("registers")
}

async fn beat(store: &PostgresStore, process: &[u8], beat: i64, seconds: u64) -> HeartbeatAnswer {
    let heartbeat = Heartbeat {
        speaker: Speaker { node: "n1", process, beat },
        lease: Duration::from_secs(seconds),
        is_ready: true,
        access: &ChangePoint::default(),
        details_number: 0,
        wiped_number: 0,
        held: 0,
        clock_ahead_ms: 0,
    };
    store.heartbeat(&heartbeat).await.expect("beats")
}

async fn lease(store: &PostgresStore) -> Duration {
    store.list_nodes().await.expect("lists").first().expect("a node").lease
}

#[tokio::test]
async fn a_heartbeat_that_comes_late_changes_nothing() {
    let (_, store) = new().await;
    assert!(register(&store, b"p1", 1).await);
    assert_eq!(beat(&store, b"p1", 3, 60).await, HeartbeatAnswer::Renewed);
    assert_eq!(beat(&store, b"p1", 2, 0).await, HeartbeatAnswer::Behind);
    assert_eq!(lease(&store).await, Duration::from_secs(60));
    store.leave("n1", b"p1").await.expect("leaves");
    assert_eq!(beat(&store, b"p1", 4, 60).await, HeartbeatAnswer::Unknown);
    assert_eq!(lease(&store).await, Duration::ZERO);
}

#[tokio::test]
async fn a_process_takes_the_place_of_another_only_when_that_may_not_answer_any_more() {
    let (url, store) = new().await;
    assert!(register(&store, b"p1", 1).await);
    assert!(!register(&store, b"p2", 1).await, "it was there a moment ago");
    assert_eq!(beat(&store, b"p1", 2, 60).await, HeartbeatAnswer::Renewed);
    assert!(!register(&store, b"p2", 2).await);
    assert_eq!(beat(&store, b"p2", 3, 60).await, HeartbeatAnswer::Unknown);
    assert_eq!(beat(&store, b"p1", 3, 60).await, HeartbeatAnswer::Renewed);
    // Its lease ends.
    sql(&url, "UPDATE nodes SET seen_at = seen_at - interval '60 seconds'");
    assert!(register(&store, b"p2", 4).await);
    assert_eq!(beat(&store, b"p1", 9, 60).await, HeartbeatAnswer::Unknown);
    // It gives its lease back, so nobody need wait.
    store.leave("n1", b"p2").await.expect("leaves");
    assert!(register(&store, b"p1", 10).await);
}

/// Without that, whoever makes the change could see no lease, and return while the node gets one without the change.
#[tokio::test]
async fn a_heartbeat_waits_for_a_change_that_is_being_committed_and_is_then_behind() {
    let (url, store) = new().await;
    assert!(register(&store, b"p1", 1).await);
    assert_eq!(beat(&store, b"p1", 2, 60).await, HeartbeatAnswer::Renewed);
    let changing = thread::spawn(move || {
        sql(
            &url,
            "BEGIN; SELECT number FROM counters WHERE counter = 'access' FOR UPDATE;
             UPDATE counters SET number = 1 WHERE counter = 'access';
             INSERT INTO changes (counter, number, id) VALUES ('access', 1, 'x');
             SELECT pg_sleep(1.5); COMMIT;",
        )
    });
    thread::sleep(Duration::from_millis(700));
    assert_eq!(beat(&store, b"p1", 3, 60).await, HeartbeatAnswer::Behind);
    changing.join().expect("ends");
}

/// Only one process can have the lock of a directory: the one before has ended.
#[tokio::test]
async fn a_process_takes_the_place_of_one_that_was_killed_in_the_same_directory_at_once() {
    let (_, store) = new().await;
    assert!(register_at(&store, Some(b"here"), b"first", 1).await);
    assert_eq!(beat(&store, b"first", 2, 60).await, HeartbeatAnswer::Renewed);
    assert!(!register_at(&store, Some(b"elsewhere"), b"second", 1).await);
    assert!(register_at(&store, Some(b"here"), b"third", 1).await);
    assert_eq!(beat(&store, b"first", 3, 60).await, HeartbeatAnswer::Unknown);
    assert_eq!(beat(&store, b"third", 2, 60).await, HeartbeatAnswer::Renewed);
}
