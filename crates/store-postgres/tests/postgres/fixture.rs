//! Stores in databases of a server that all tests share.

use std::time::Duration;

use contactd_core::{SubjectDigest, Timestamp};
use contactd_store_postgres::{PostgresStore, Settings};
use contactd_testing::TestServer;

pub(crate) fn settings(url: &str) -> Settings {
    Settings {
        url: url.parse().expect("a URL"),
        patience: Duration::from_secs(20),
        answer: Duration::from_secs(5),
        makes_tables: true,
        on_wait: Box::new(|| {}),
    }
}

pub(crate) async fn open(url: &str) -> PostgresStore {
    PostgresStore::open(settings(url)).await.expect("opens")
}

/// A new database, and a store in it.
pub(crate) async fn new() -> (String, PostgresStore) {
    let url = TestServer::shared().database();
    let store = open(&url).await;
    (url, store)
}

/// The name of the database of a URL.
pub(crate) fn database(url: &str) -> &str {
    url.rsplit('/').next().expect("a name")
}

/// Runs SQL in the database of a URL.
pub(crate) fn sql(url: &str, sql: &str) -> String {
    TestServer::shared().sql(database(url), &format!("SET search_path TO contactd; {sql}"))
}

pub(crate) fn now() -> Timestamp {
    Timestamp::parse("2026-06-01").expect("a time")
}

/// Somebody.
pub(crate) fn digest(number: u32) -> SubjectDigest {
    let mut bytes = [0; 32];
    bytes[..4].copy_from_slice(&number.to_be_bytes());
    SubjectDigest { key: "k".to_owned(), bytes }
}

/// Another client of a database. What it holds ends when it is dropped.
pub(crate) async fn client(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.expect("connects");
    tokio::spawn(connection);
    client
}
