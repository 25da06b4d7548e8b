//! Leases of nodes when something goes wrong.

use std::time::Duration;

use crate::fixture::{Cluster, eventually};

#[test]
fn a_heartbeat_that_was_sent_before_the_copy_was_forgotten_does_not_renew_the_lease() {
    let cluster = Cluster::new().with_lease(Duration::from_secs(12));
    cluster.put_places(0..10, "first");
    let node = cluster.node("a");
    node.is_ready();
    // The thread of details waits for the table, the next heartbeat for its row.
    let details = cluster.hold("LOCK TABLE details");
    cluster.change_nothing();
    cluster.waits_for_lock("FROM details");
    let row = cluster.hold("PERFORM 1 FROM nodes FOR UPDATE");
    cluster.waits_for_lock("UPDATE nodes SET seen_at");
    // The thread of details finds another history.
    cluster.sql("DELETE FROM changes WHERE counter = 'details' AND number = 1");
    drop(details);
    eventually(|| !node.lease.holds());
    let details = cluster.hold("LOCK TABLE details");
    drop(row);
    // The heartbeat is answered, and the node begins to load.
    cluster.waits_for_lock("FROM details");
    eventually(|| cluster.sql("SELECT lease_ms FROM nodes WHERE details_number = 2") == "0");
    assert!(!node.lease.holds());
    drop(details);
    node.is_ready();
    cluster.assert_equal(&node);
}

#[test]
fn a_node_that_found_another_history_does_not_say_that_its_files_are_wiped() {
    let cluster = Cluster::new();
    cluster.put_places(0..10, "first");
    cluster.put_places(0..10, "second");
    let node = cluster.node("a");
    node.is_ready();
    eventually(|| cluster.sql("SELECT wiped_number FROM nodes") == "2");
    let details = cluster.hold("LOCK TABLE details");
    cluster.change_nothing();
    cluster.waits_for_lock("FROM details");
    cluster.sql(
        "BEGIN; DELETE FROM changes WHERE counter = 'details' AND number >= 2;
         UPDATE counters SET number = 1 WHERE counter = 'details'; COMMIT",
    );
    eventually(|| cluster.sql("SELECT lease_ms FROM nodes") == "0");
    assert_eq!(cluster.sql("SELECT wiped_number FROM nodes"), "-1");
    drop(details);
    node.is_ready();
}

#[test]
fn a_node_that_the_database_does_not_know_any_more_gives_up_its_lease_and_joins_again() {
    let cluster = Cluster::new().with_lease(Duration::from_secs(600));
    let node = cluster.node("a");
    node.is_ready();
    // It cannot join again yet.
    cluster.sql(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not now'; END $$;
         CREATE TRIGGER refuse BEFORE INSERT ON nodes FOR EACH ROW EXECUTE FUNCTION refuse();
         DELETE FROM nodes",
    );
    eventually(|| !node.lease.holds());
    cluster.sql("DROP TRIGGER refuse ON nodes");
    node.is_ready();
}
