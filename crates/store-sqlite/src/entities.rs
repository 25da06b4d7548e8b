//! Tokens, users and admin tokens: rows of the same columns in a table for each.

use async_trait::async_trait;
use contactd_core::Timestamp;
use contactd_core::store::{Decide, Entities, EntityRow, EntityTable, Noted, Stored};
use rusqlite::{Transaction, params};

use crate::copy::held;
use crate::entity_rows::{list, put};
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
