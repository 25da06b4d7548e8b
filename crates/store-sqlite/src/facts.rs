//! Facts that the store remembers about itself.

use contactd_core::store::{Facts, Noted, StoreError, StoreFuture};
use rusqlite::{Connection, OptionalExtension};

use crate::{SqliteStore, connection, outbox};

impl Facts for SqliteStore {
    fn fact(&self, name: &str) -> impl StoreFuture<Option<String>> {
        std::future::ready(find(&self.main(), name).map_err(connection::error))
    }

    fn remember(&self, name: &str, value: &str) -> impl StoreFuture<String> {
        std::future::ready(self.keep(name, value))
    }

    fn replace_fact(&self, name: &str, value: &str, entry: Noted<'_>) -> impl StoreFuture<()> {
        let mut main = self.main();
        let mut replace = || -> Result<(), StoreError> {
            let transaction = connection::write(&mut main)?;
            transaction
                .execute("INSERT OR REPLACE INTO facts VALUES (?1, ?2)", [name, value])
                .map_err(connection::error)?;
            outbox::add(&transaction, entry, &[]).map_err(connection::error)?;
            transaction.commit().map_err(connection::error)
        };
        std::future::ready(replace())
    }

    fn forget(&self, name: &str) -> impl StoreFuture<()> {
        let forgotten = self.main().execute("DELETE FROM facts WHERE name = ?1", [name]);
        std::future::ready(forgotten.map(|_| ()).map_err(connection::error))
    }
}

impl SqliteStore {
    fn keep(&self, name: &str, value: &str) -> Result<String, StoreError> {
        let main = self.main();
        let known = find(&main, name).map_err(connection::error)?;
        if let Some(known) = known {
            return Ok(known);
        }
        main.execute("INSERT OR IGNORE INTO facts VALUES (?1, ?2)", [name, value])
            .map_err(connection::error)?;
        Ok(find(&main, name).map_err(connection::error)?.unwrap_or_else(|| value.to_owned()))
    }
}

fn find(main: &Connection, name: &str) -> rusqlite::Result<Option<String>> {
    let mut statement = main.prepare_cached("SELECT value FROM facts WHERE name = ?1")?;
    statement.query_row([name], |row| row.get(0)).optional()
}
