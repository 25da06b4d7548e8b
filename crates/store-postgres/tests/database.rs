//! Connecting, migrating, and facts.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

use std::time::{Duration, Instant};

use contactd_core::store::Facts;
use contactd_postgres_testing::{Stop, TestServer};
use contactd_store_postgres::{PostgresStore, Settings};

fn settings(url: &str) -> Settings {
    Settings {
        url: url.parse().expect("a URL"),
        patience: Duration::from_secs(20),
        makes_tables: true,
        on_wait: Box::new(|| {}),
    }
}

#[tokio::test]
async fn several_processes_that_start_at_once_make_one_schema() {
    let url = TestServer::shared().database();
    let opened = futures_util::future::join_all((0..8).map(|_| PostgresStore::open(settings(&url)))).await;
    for store in opened {
        let store = store.expect("opens");
        assert_eq!(store.remember("one", "1").await.expect("remembers"), "1");
    }
}

#[tokio::test]
async fn patience_runs_once_for_all_steps_while_the_server_is_away() {
    let server = TestServer::start();
    let url = server.database();
    let patience = Duration::from_secs(3);
    let store = PostgresStore::open(Settings { patience, ..settings(&url) }).await.expect("opens");
    server.stop(Stop::Crash);
    let took = async || {
        let began = Instant::now();
        store.remember("one", "1").await.expect_err("it is away");
        began.elapsed()
    };
    let first = took().await;
    assert!(first > patience / 2 && first < 2 * patience, "{first:?}");
    let second = took().await;
    assert!(second < patience / 2, "{second:?}");
    server.run();
    assert_eq!(store.remember("one", "1").await.expect("remembers"), "1");
}
