//! The storage engine of this build.

pub(crate) use contactd_store_sqlite::SqliteStore as Store;
