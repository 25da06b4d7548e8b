//! Runs the suite that every engine has to pass.

use contactd_store_postgres::PostgresStore;
use contactd_testing::TestServer;

async fn open() -> Box<PostgresStore> {
    Box::new(crate::fixture::open(&TestServer::shared().database()).await)
}

contactd_testing::conformance!(open);
