//! Connecting, migrating, and facts.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

use std::time::Duration;

use contactd_core::store::Facts;
use contactd_postgres_testing::TestServer;
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
