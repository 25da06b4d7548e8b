//! Units of quotas, leased to nodes.

use contactd_core::{LeasedUnits, Period};
use contactd_store_postgres::{PostgresStore, QuotaKey, Registration, Speaker, UnitsAsked};
use contactd_testing::TestServer;

use crate::fixture::{new, open};

/// A day that is not over.
const DAY: i64 = 40_000;

async fn register(store: &PostgresStore, node: &str, process: &[u8]) {
    let registration = Registration {
        speaker: Speaker { node, process, beat: 1 },
        name: node,
        version: "0",
        data_dir: Some(node.as_bytes()),
        details_number: 0,
        wiped_number: 0,
    };
    assert!(store.register_node(&registration).await.expect("registers"));
}

fn asked(family: &str, holds: u64, used: u64, wants: u64) -> UnitsAsked {
    let key = QuotaKey::new(family, Period::Day, DAY);
    UnitsAsked { key, next_day: DAY + 1, limit: 20, holds, used, reserved: 0, wants, is_first: false }
}

async fn lease(store: &PostgresStore, node: &str, asked: UnitsAsked) -> LeasedUnits {
    let process = node.as_bytes();
    let answers = store.lease_units(node, process, &[asked]).await.expect("asks").expect("it is this node");
    answers[0]
}

fn leased(units: u64, granted: u64, free: u64, is_used_up: bool) -> LeasedUnits {
    LeasedUnits { units, granted, free, is_used_up }
}

#[tokio::test]
async fn nodes_are_given_no_more_than_the_quota_and_what_they_give_back_goes_to_others() {
    let (_, store) = new().await;
    register(&store, "a", b"a").await;
    register(&store, "b", b"b").await;
    assert_eq!(lease(&store, "a", asked("f", 0, 0, 100)).await, leased(5, 5, 15, false));
    assert_eq!(lease(&store, "a", asked("f", 5, 1, 9)).await, leased(8, 3, 12, false));
    assert_eq!(lease(&store, "b", asked("f", 0, 0, 2)).await, leased(2, 2, 10, false));
    assert_eq!(lease(&store, "b", asked("f", 2, 2, 0)).await, leased(2, 0, 10, false), "it only says it");
    let mut held = 2;
    for _ in 0..10 {
        held = lease(&store, "b", asked("f", held, held, 100)).await.units;
    }
    assert_eq!(lease(&store, "b", asked("f", held, held, 1)).await, leased(12, 0, 0, false));
    let wanted = QuotaKey::new("f", Period::Day, DAY);
    assert_eq!(store.wanted_quotas("a").await.expect("reads"), [wanted]);
    assert_eq!(store.wanted_quotas("b").await.expect("reads"), []);
    // Said twice, it is the same.
    for _ in 0..2 {
        assert_eq!(lease(&store, "a", asked("f", 7, 7, 0)).await, leased(7, 0, 1, false));
    }
    assert_eq!(lease(&store, "b", asked("f", 12, 12, 1)).await, leased(13, 1, 0, false));
    assert_eq!(lease(&store, "b", asked("f", 13, 13, 1)).await, leased(13, 0, 0, true));
    assert_eq!(store.wanted_quotas("a").await.expect("reads"), [], "there is nothing to give back");
    assert_eq!(lease(&store, "b", asked("other", 0, 0, 1)).await, leased(1, 1, 19, false));
    store.leave("a", b"a").await.expect("leaves");
    let refused = store.lease_units("a", b"a", &[asked("f", 7, 7, 1)]).await.expect("asks");
    assert_eq!(refused, None, "it does not run as a node any more");
}

#[tokio::test]
async fn nodes_that_ask_at_the_same_time_are_given_a_quota_exactly_once() {
    let store = std::sync::Arc::new(open(&TestServer::shared().database()).await);
    let mut asking = Vec::new();
    for node in ["a", "b", "c"] {
        register(&store, node, node.as_bytes()).await;
        let store = std::sync::Arc::clone(&store);
        asking.push(tokio::spawn(async move {
            let (mut held, mut other) = (0, 0);
            for _ in 0..30 {
                let both = [asked("f", held, held, 2), asked("g", other, other, 1)];
                let process = node.as_bytes();
                let answers =
                    store.lease_units(node, process, &both).await.expect("asks").expect("this node");
                (held, other) = (answers[0].units, answers[1].units);
            }
            (held, other)
        }));
    }
    let mut sum = (0, 0);
    for asking in asking {
        let (held, other) = asking.await.expect("ends");
        sum = (sum.0 + held, sum.1 + other);
    }
    assert_eq!(sum, (20, 20));
}
