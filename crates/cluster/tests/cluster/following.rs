//! Copies that follow the database.

use std::time::{Duration, Instant};

use contactd_cluster::{ClusterInForce, Verified, verify};
use contactd_core::store::Maintenance;
use contactd_core::{Affected, InForce, NodeNote};
use contactd_store_sqlite::SqliteStore;
use contactd_testing::Dice;

use crate::fixture::{Cluster, eventually, suppress_in};

#[test]
fn a_node_copies_what_there_is_and_follows_what_changes() {
    let cluster = Cluster::new();
    cluster.put_places(0..500, "first");
    cluster.put_token("t1");
    cluster.suppress(1);
    let node = cluster.node("a");
    node.is_ready();
    cluster.assert_equal(&node);
    let status = node.status();
    assert_eq!((status.access_number, status.details_number), (2, 1));

    cluster.put_places(490..510, "second");
    cluster.empty_places(0..10);
    cluster.unsuppress(1);
    cluster.assert_equal(&node);
    eventually(|| node.status().wiped_number == 3);
    node.is_ready();
}

#[tokio::test]
async fn a_node_that_is_killed_while_it_loads_goes_on_from_there() {
    let cluster = Cluster::new();
    cluster.put_places(0..3_000, "first");
    let dir = tempfile::tempdir().expect("a directory");
    let (database, local) = (cluster.open(), SqliteStore::open(dir.path()).expect("opens"));
    local.begin_copy(&database.lineage().await.expect("reads")).expect("begins");
    let from = database.numbers().await.expect("reads").details;
    local.begin_snapshot(&from).expect("begins");
    let mut after = -1;
    for _ in 0..3 {
        let chunk = database.read_details_chunk(after, 101, &from).await.expect("reads").expect("known");
        local.load_chunk(after, &chunk).expect("loads");
        after = chunk.through.expect("there are more");
    }
    drop(local);
    cluster.put_places(20..40, "second");
    cluster.put_places(2_990..3_010, "second");
    cluster.empty_places(5..15);
    let node = cluster.node_in(dir.path(), "a");
    node.is_ready();
    std::thread::scope(|scope| scope.spawn(|| cluster.assert_equal(&node)).join().expect("equal"));
}

#[tokio::test]
async fn a_database_that_is_restored_while_a_node_loads_is_loaded_anew() {
    let cluster = Cluster::new();
    cluster.put_places(0..300, "first");
    let dir = tempfile::tempdir().expect("a directory");
    let (database, local) = (cluster.open(), SqliteStore::open(dir.path()).expect("opens"));
    local.begin_copy(&database.lineage().await.expect("reads")).expect("begins");
    let from = database.numbers().await.expect("reads").details;
    local.begin_snapshot(&from).expect("begins");
    // The first part contains places of a change that never happened.
    cluster.put_places(300..310, "lost");
    cluster.sql("UPDATE details SET id = id - 300 * 65536 + 100 WHERE number = 2");
    let chunk = database.read_details_chunk(-1, 101, &from).await.expect("reads").expect("known");
    assert_eq!(chunk.at.number, 2);
    local.load_chunk(-1, &chunk).expect("loads");
    let restore = "BEGIN; DELETE FROM details WHERE number = 2; DELETE FROM changes WHERE number = 2;
        UPDATE counters SET number = 1 WHERE counter = 'details'; COMMIT";
    cluster.sql(restore);
    let seen = database.read_details_chunk(0, 101, &chunk.at).await.expect("reads");
    assert!(seen.is_none(), "the database does not know what was loaded");
    drop(local);
    let node = cluster.node_in(dir.path(), "a");
    node.is_ready();
    std::thread::scope(|scope| scope.spawn(|| cluster.assert_equal(&node)).join().expect("equal"));
}

#[tokio::test]
async fn a_node_that_began_before_the_first_change_loads_anew_if_that_is_forgotten() {
    let cluster = Cluster::new();
    let dir = tempfile::tempdir().expect("a directory");
    let (database, local) = (cluster.open(), SqliteStore::open(dir.path()).expect("opens"));
    local.begin_copy(&database.lineage().await.expect("reads")).expect("begins");
    let from = database.numbers().await.expect("reads").details;
    local.begin_snapshot(&from).expect("begins");
    cluster.put_places(0..300, "first");
    cluster.put_places(0..1, "second");
    let chunk = database.read_details_chunk(-1, 101, &from).await.expect("reads").expect("known");
    local.load_chunk(-1, &chunk).expect("loads");
    drop(local);
    cluster.empty_places(0..10);
    cluster.sql("DELETE FROM changes WHERE counter = 'details' AND number = 1; DELETE FROM tombstones");
    let node = cluster.node_in(dir.path(), "a");
    node.is_ready();
    std::thread::scope(|scope| scope.spawn(|| cluster.assert_equal(&node)).join().expect("equal"));
}

#[test]
fn a_copy_equals_the_database_after_any_changes_and_stops() {
    for seed in [1, 2, 3] {
        let cluster = Cluster::new();
        let mut dice = Dice::new(seed);
        let dir = tempfile::tempdir().expect("a directory");
        let mut node = None;
        for _ in 0..60 {
            let at = dice.below(40);
            match dice.below(9) {
                0..=2 => cluster.put_places(at..at + 1 + dice.below(5), &format!("v{}", dice.below(4))),
                3 => cluster.empty_places(at..at + 1 + dice.below(5)),
                4 => cluster.suppress(dice.below(10)),
                5 => cluster.unsuppress(dice.below(10)),
                6 => cluster.put_token(&format!("t{}", dice.below(5))),
                7 => drop(node.take()),
                _ => node = Some(node.take().unwrap_or_else(|| cluster.node_in(dir.path(), "a"))),
            }
        }
        let node = node.unwrap_or_else(|| cluster.node_in(dir.path(), "a"));
        node.is_ready();
        cluster.assert_equal(&node);
    }
}

#[test]
fn a_node_notices_a_restored_database_and_copies_it_anew() {
    let cluster = Cluster::new();
    cluster.put_places(0..50, "first");
    cluster.suppress(1);
    let node = cluster.node("a");
    node.is_ready();
    // What was changed last never happened.
    cluster.put_places(40..60, "lost");
    cluster.suppress(2);
    cluster.assert_equal(&node);
    cluster.sql(
        "BEGIN;
         DELETE FROM details WHERE number = 2; DELETE FROM suppressions WHERE number = 2;
         DELETE FROM changes WHERE number = 2; UPDATE counters SET number = 1; COMMIT",
    );
    eventually(|| node.status().details_number == 1 && node.status().is_loaded);
    cluster.assert_equal(&node);
    node.is_ready();

    // Afterwards other changes get the same numbers.
    cluster.sql("UPDATE changes SET id = sha256(id)");
    cluster.put_places(100..110, "other");
    cluster.assert_equal(&node);
    node.is_ready();
}

#[test]
fn a_lease_is_not_renewed_while_the_node_is_behind() {
    let cluster = Cluster::new();
    let node = cluster.node("a");
    node.is_ready();
    node.gate.close();
    cluster.suppress(1);
    eventually(|| !node.lease.holds());
    assert_eq!(node.status().access_number, 0);
    node.gate.open();
    node.is_ready();
    assert_eq!(node.status().access_number, 1);
}

#[tokio::test]
async fn a_change_is_in_force_when_every_node_has_it() {
    let cluster = Cluster::new().with_lease(Duration::from_secs(60));
    let (one, other) = (cluster.node("a"), cluster.node("b"));
    one.is_ready();
    other.is_ready();
    let in_force = ClusterInForce::new(cluster.open());
    for number in 1..20 {
        cluster.suppress(number);
        assert_eq!(in_force.announce(Affected::Access).await, Ok(Vec::new()));
        for node in [&one, &other] {
            assert_eq!(node.status().access_number, i64::try_from(number).expect("fits"));
        }
    }
}

#[tokio::test]
async fn a_silent_node_is_waited_for_until_its_lease_has_ended_and_is_named() {
    let cluster = Cluster::new();
    let node = cluster.node("a");
    node.is_ready();
    let in_force = ClusterInForce::new(cluster.open());
    node.gate.close();
    cluster.suppress(1);
    assert_eq!(in_force.announce(Affected::Access).await, Ok(vec![NodeNote::Silent("node a".to_owned())]));
    assert!(!node.lease.holds());
    node.gate.open();
}

#[tokio::test]
async fn a_node_that_stopped_is_not_waited_for() {
    let cluster = Cluster::new().with_lease(Duration::from_secs(600));
    let node = cluster.node("a");
    node.is_ready();
    let lease = node.lease.clone();
    node.finish().await;
    assert!(!lease.holds());
    cluster.suppress(1);
    let in_force = ClusterInForce::new(cluster.open());
    let began = Instant::now();
    assert_eq!(in_force.announce(Affected::Access).await, Ok(Vec::new()));
    assert!(began.elapsed() < Duration::from_secs(300));
}

#[tokio::test]
async fn an_erasure_waits_until_removed_values_are_wiped() {
    let cluster = Cluster::new();
    cluster.put_places(0..100, "first");
    let node = cluster.node("a");
    node.is_ready();
    cluster.empty_places(7..8);
    cluster.open().wipe_removed().await.expect("every node has wiped it");
    let bytes = std::fs::read(node.dir().join("details.db")).expect("reads");
    assert!(!bytes.windows(17).any(|window| window == b"first7@example.co"));
    assert!(bytes.windows(17).any(|window| window == b"first8@example.co"));
}

#[tokio::test]
async fn a_copy_that_differs_is_found() {
    let cluster = Cluster::new();
    cluster.put_places(0..100, "first");
    let node = cluster.node("a");
    node.is_ready();
    let (local, database) = (SqliteStore::open(node.dir()).expect("opens"), cluster.open());
    let verified = verify(&local, &database, Duration::from_secs(10)).await.expect("verifies");
    assert!(matches!(&verified, Verified::Equal(digest) if digest.profiles == 100), "{verified:?}");
    cluster.sql("UPDATE details SET value = 'other@example.com' WHERE id = (SELECT min(id) FROM details)");
    let verified = verify(&local, &database, Duration::from_secs(10)).await.expect("verifies");
    assert!(matches!(verified, Verified::Different { .. }), "{verified:?}");
}

#[test]
fn a_store_of_its_own_is_not_overwritten() {
    let cluster = Cluster::new();
    let dir = tempfile::tempdir().expect("a directory");
    let store = SqliteStore::open(dir.path()).expect("opens");
    suppress_in(&store);
    drop(store);
    let refused = cluster.try_node_in(dir.path(), "a").err().expect("is refused");
    assert_eq!(
        refused.to_string(),
        "this data directory holds a store of its own, not the copy of a node. Give the node an empty directory, or \
         move the store into the cluster with `contactd migrate`"
    );
}
