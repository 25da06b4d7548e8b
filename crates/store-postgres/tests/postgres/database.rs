//! Connecting, making tables, and facts.

use std::time::{Duration, Instant};

use contactd_core::store::Facts;
use contactd_store_postgres::{PostgresStore, Settings};
use contactd_testing::TestServer;

use crate::fixture::settings;

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
    server.stop();
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

#[tokio::test]
async fn a_server_that_wants_a_password_is_not_waited_for() {
    let server = TestServer::start();
    let url = server.database();
    server.sql("postgres", "CREATE ROLE asked LOGIN PASSWORD 'S3cret'");
    let rules = server.data().join("pg_hba.conf");
    let others = std::fs::read_to_string(&rules).expect("reads");
    std::fs::write(&rules, format!("host all asked 127.0.0.1/32 scram-sha-256\n{others}")).expect("writes");
    server.sql("postgres", "SELECT pg_reload_conf()");
    let began = Instant::now();
    // Another host, which is away, is not waited for either.
    let url = url.replace("contactd@", "asked@").replace("/test", ",127.0.0.1:1/test");
    let refused = loop {
        match PostgresStore::open(settings(&url)).await {
            // The server has not read its rules again yet.
            Err(error)
                if error.to_string().contains("42501") && began.elapsed() < Duration::from_secs(10) => {}
            opened => break opened.map(drop).expect_err("there is no password"),
        }
    };
    assert_eq!(
        refused.to_string(),
        "store: PostgreSQL: the database asks for a password: put it into the URL"
    );
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
}

#[tokio::test]
async fn an_error_on_connecting_says_whether_hosts_are_read_only_or_unknown() {
    let url = TestServer::shared().database();
    let name = url.rsplit('/').next().expect("a name");
    let set = format!("ALTER DATABASE {name} SET default_transaction_read_only = on");
    TestServer::shared().sql("postgres", &set);
    for (url, what) in [
        (url.clone(), "every host is read-only; no primary was found"),
        (
            "postgres://contactd@no-such-host.invalid/contacts?sslmode=disable".to_owned(),
            "the name of a host is not found: check the hosts in the URL",
        ),
    ] {
        let patience = Duration::from_secs(1);
        let refused = PostgresStore::open(Settings { patience, ..settings(&url) }).await.map(drop);
        let refused = refused.expect_err("it cannot be used").to_string();
        assert!(refused.ends_with(what), "{refused}");
    }
}
