//! Stores in databases of a server that all tests share.

use std::time::Duration;

use contactd_store_postgres::{PostgresStore, Settings};
use contactd_testing::TestServer;

pub(crate) fn settings(url: &str) -> Settings {
    Settings {
        url: url.parse().expect("a URL"),
        patience: Duration::from_secs(20),
        makes_tables: true,
        on_wait: Box::new(|| {}),
    }
}

pub(crate) async fn open(url: &str) -> PostgresStore {
    PostgresStore::open(settings(url)).await.expect("opens")
}

/// Runs SQL in the database of a URL.
pub(crate) fn sql(url: &str, sql: &str) -> String {
    let name = url.rsplit('/').next().expect("a name");
    TestServer::shared().sql(name, &format!("SET search_path TO contactd; {sql}"))
}

/// Another client of a database. What it holds ends when it is dropped.
pub(crate) async fn client(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.expect("connects");
    tokio::spawn(connection);
    client
}
