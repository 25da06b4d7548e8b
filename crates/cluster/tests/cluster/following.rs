//! Copies that follow the database.

use std::sync::Arc;

use contactd_core::store::copying::ChangePoint;
use contactd_store_postgres::PostgresStore;
use contactd_store_sqlite::SqliteStore;
use contactd_testing::Dice;
use tempfile::TempDir;

use crate::fixture::{Cluster, eventually};

/// The files of a node that began to copy the database, and the change where it began.
async fn begun(cluster: &Cluster) -> (TempDir, Arc<PostgresStore>, SqliteStore, ChangePoint) {
    let dir = tempfile::tempdir().expect("a directory");
    let (database, local) = (cluster.open(), SqliteStore::open(dir.path()).expect("opens"));
    local.begin_copy(&database.lineage().await.expect("reads")).expect("begins");
    let from = database.numbers().await.expect("reads").details;
    local.begin_snapshot(&from).expect("begins");
    (dir, database, local, from)
}

#[tokio::test]
async fn a_node_that_is_killed_while_it_loads_goes_on_from_there() {
    let cluster = Cluster::new();
    cluster.put_places(0..3_000, "first");
    let (dir, database, local, from) = begun(&cluster).await;
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
    let (dir, database, local, from) = begun(&cluster).await;
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
    let (dir, database, local, from) = begun(&cluster).await;
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
    eventually(|| cluster.sql("SELECT details_number FROM nodes") == "2");
    cluster.sql(
        "BEGIN;
         DELETE FROM details WHERE number = 2; DELETE FROM suppressions WHERE number = 2;
         DELETE FROM changes WHERE number = 2; UPDATE counters SET number = 1; COMMIT",
    );
    eventually(|| cluster.sql("SELECT details_number FROM nodes") == "1");
    node.is_ready();
    cluster.assert_equal(&node);

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
    let closed = node.gate.lock().expect("not poisoned");
    cluster.suppress(1);
    eventually(|| !node.lease.holds());
    assert_eq!(cluster.sql("SELECT access_number FROM nodes"), "0");
    drop(closed);
    node.is_ready();
    assert_eq!(cluster.sql("SELECT access_number FROM nodes"), "1");
}
