//! Tokens, users and admin tokens: rows of the same columns in a table for each.

use async_trait::async_trait;
use contactd_core::Timestamp;
use contactd_core::store::{Decide, Entities, EntityRow, EntityTable, Noted, Stored};
use rusqlite::{Connection, Result, Transaction, params};

use crate::copy::held;
use crate::{SqliteStore, connection, outbox};

#[async_trait]
impl Entities for SqliteStore {
    async fn list_rows(&self, table: EntityTable) -> Stored<Vec<EntityRow>> {
        self.with_main(|main| {
            let mut rows = list(main, table)?;
            if table == EntityTable::Tokens {
                held::overlay(main, &mut rows)?;
            }
            Ok(rows)
        })
    }

    async fn change_rows(
        &self,
        table: EntityTable,
        decide: Decide<'_>,
        entry: Noted<'_>,
    ) -> Stored<Vec<EntityRow>> {
        let change = |transaction: &Transaction<'_>| {
            let rows = list(transaction, table)?;
            if let Some(stored) = decide(&rows).map_err(connection::refused)? {
                outbox::add(transaction, entry, &[])?;
                put(transaction, table, &stored)?;
            }
            Ok(rows)
        };
        match table {
            EntityTable::Tokens => self.change_access(change),
            EntityTable::Users | EntityTable::AdminTokens => self.change_main(change),
        }
    }

    async fn note_use(&self, table: EntityTable, id: &str, at: Timestamp) -> Stored<()> {
        let note = format!(
            "UPDATE {} SET last_used_at = max(coalesce(last_used_at, ?2), ?2) WHERE id = ?1",
            table.name()
        );
        self.with_main(|main| main.execute(&note, params![id, at.millis()]).map(|_| ()))
    }
}

/// All rows of a table, in the order in which they were first stored.
pub(crate) fn list(connection: &Connection, table: EntityTable) -> Result<Vec<EntityRow>> {
    let mut list = connection.prepare_cached(&format!(
        "SELECT id, family, body, last_used_at, (SELECT coalesce(sum(hits), 0) FROM usage WHERE token = id)
         FROM {} ORDER BY rowid",
        table.name()
    ))?;
    let rows = list.query_map((), |row| {
        Ok(EntityRow {
            id: row.get(0)?,
            family: row.get(1)?,
            body: row.get(2)?,
            last_used_at: row.get(3)?,
            hits: row.get(4)?,
        })
    })?;
    rows.collect()
}

/// Stores rows, each in place of the one with its id. A use that is stored stays, unless theirs is later.
pub(crate) fn put(connection: &Connection, table: EntityTable, rows: &[EntityRow]) -> Result<()> {
    let mut put = connection.prepare_cached(&format!(
        "INSERT INTO {} (id, family, body, last_used_at) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (id) DO UPDATE SET family = excluded.family, body = excluded.body,
             last_used_at = nullif(max(coalesce(last_used_at, 0), coalesce(excluded.last_used_at, 0)), 0)",
        table.name()
    ))?;
    for row in rows {
        put.execute(params![row.id, row.family, row.body, row.last_used_at])?;
    }
    Ok(())
}
