//! Facts that the store remembers about itself.

use async_trait::async_trait;
use contactd_core::store::{Facts, Noted, Stored};
use rusqlite::{Connection, OptionalExtension, Result};

use crate::{SqliteStore, outbox};

#[async_trait]
impl Facts for SqliteStore {
    async fn fact(&self, name: &str) -> Stored<Option<String>> {
        self.with_main(|main| find(main, name))
    }

    async fn remember(&self, name: &str, value: &str) -> Stored<String> {
        self.with_main(|main| {
            if let Some(known) = find(main, name)? {
                return Ok(known);
            }
            main.execute("INSERT OR IGNORE INTO facts VALUES (?1, ?2)", [name, value])?;
            Ok(find(main, name)?.unwrap_or_else(|| value.to_owned()))
        })
    }

    async fn replace_fact(&self, name: &str, value: &str, entry: Noted<'_>) -> Stored<()> {
        self.change_main(|transaction| {
            transaction.execute("INSERT OR REPLACE INTO facts VALUES (?1, ?2)", [name, value])?;
            outbox::add(transaction, entry, &[])
        })
    }

    async fn forget(&self, name: &str) -> Stored<()> {
        self.with_main(|main| main.execute("DELETE FROM facts WHERE name = ?1", [name]).map(|_| ()))
    }
}

fn find(main: &Connection, name: &str) -> Result<Option<String>> {
    let mut statement = main.prepare_cached("SELECT value FROM facts WHERE name = ?1")?;
    statement.query_row([name], |row| row.get(0)).optional()
}
