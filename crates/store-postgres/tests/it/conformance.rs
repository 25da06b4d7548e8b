//! Runs the suite that every engine has to pass.

use std::time::Duration;

use contactd_postgres_testing::TestServer;
use contactd_store_postgres::{PostgresStore, Settings};

async fn open() -> Box<PostgresStore> {
    let url = TestServer::shared().database().parse().expect("a URL");
    let settings =
        Settings { url, patience: Duration::from_secs(20), makes_tables: true, on_wait: Box::new(|| {}) };
    Box::new(PostgresStore::open(settings).await.expect("opens"))
}

contactd_conformance::conformance!(open);
