//! The storage engines of this build.

pub(crate) use contactd_store_postgres::PostgresStore as Database;
/// The files of a data directory. Lookups read them, in a cluster too.
pub(crate) use contactd_store_sqlite::SqliteStore as Files;
