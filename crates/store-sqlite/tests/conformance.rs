//! Runs the suite that every engine has to pass: once reading the details, and with a lookup table in memory and in its file.

use contactd_store_sqlite::SqliteStore;
use contactd_testing::InTempDir;

async fn open() -> InTempDir<SqliteStore> {
    InTempDir::open(SqliteStore::open)
}

contactd_testing::local_conformance!(open);

mod table_in_memory {
    use super::{InTempDir, SqliteStore};

    async fn open() -> InTempDir<SqliteStore> {
        InTempDir::open(|dir| SqliteStore::open(dir).map(|store| store.with_lookup_table(u64::MAX)))
    }

    contactd_testing::lookup_conformance!(open);
}

mod table_in_its_file {
    use super::{InTempDir, SqliteStore};

    async fn open() -> InTempDir<SqliteStore> {
        InTempDir::open(|dir| SqliteStore::open(dir).map(|store| store.with_lookup_table(0)))
    }

    contactd_testing::lookup_conformance!(open);
}
