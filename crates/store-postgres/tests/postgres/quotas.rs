//! Units of quotas, leased to nodes.

use contactd_core::store::{Tokens, Usage};
use contactd_core::{LeasedUnits, Period, Timestamp, Token, TokenSecret, UsageDelta};
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
async fn usage_counts_for_nodes_without_a_lease_and_for_those_that_were_forgotten() {
    let (_, store) = new().await;
    let secret = TokenSecret::generate().expect("random");
    let token = Token::new("crm", Timestamp::from_seconds(1)).expect("random");
    store.create_token(&secret.hash(), &token, None).await.expect("creates");
    let family = token.family.as_str();
    let counted = |hits| UsageDelta { token: token.id.clone(), hits, ..UsageDelta::default() };
    // Of a store that was moved into the cluster, of a node, and of another day.
    store.record_usage(&[counted(1)], Timestamp::start_of_day(DAY)).await.expect("stores");
    let of_a = [(DAY, counted(4)), (DAY - 1, counted(100)), (DAY + 1, counted(100))];
    store.store_usage("a", &of_a).await.expect("stores");
    register(&store, "a", b"a").await;
    register(&store, "b", b"b").await;
    assert_eq!(lease(&store, "b", asked(family, 0, 0, 0)).await, leased(0, 0, 15, false));
    let first = UnitsAsked { is_first: true, ..asked(family, 2, 2, 3) };
    assert_eq!(lease(&store, "a", first).await, leased(7, 3, 12, false), "never less than what it stored");
    assert_eq!(lease(&store, "b", asked(family, 0, 0, 0)).await.free, 12, "what is leased counts instead");
    store.leave("a", b"a").await.expect("leaves");
    store.forget_node("a").await.expect("forgets");
    assert_eq!(lease(&store, "b", asked(family, 0, 0, 0)).await.free, 15, "what is stored counts again");
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
