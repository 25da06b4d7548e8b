//! Runs the suite that every engine has to pass.

use contactd_store_sqlite::SqliteStore;
use contactd_testing::InTempDir;

async fn open() -> InTempDir<SqliteStore> {
    InTempDir::open(SqliteStore::open)
}

contactd_testing::local_conformance!(open);
