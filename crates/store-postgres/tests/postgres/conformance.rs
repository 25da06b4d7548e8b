//! Runs the suite that every engine has to pass.

use contactd_core::{DigestKey, DigestKeys};
use contactd_store_postgres::PostgresStore;
use contactd_testing::TestServer;

async fn open() -> Box<PostgresStore> {
    let store = crate::fixture::open(&TestServer::shared().database()).await;
    store.use_keys(&DigestKeys::new(vec![DigestKey::new(&[7; 32])]).expect("a key"));
    Box::new(store)
}

contactd_testing::conformance!(open);
