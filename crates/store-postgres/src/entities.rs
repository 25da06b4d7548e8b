//! Tokens, users and admin tokens: rows of the same columns in a table for each.

use async_trait::async_trait;
use contactd_core::Timestamp;
use contactd_core::store::sealing::BoundRow;
use contactd_core::store::{Decide, Entities, EntityRow, EntityTable, Noted, StoreError, Stored};
use tokio_postgres::Row;

use crate::database::{Counter, Work};
use crate::failure::Tried;
use crate::usage::unsigned;
use crate::{PostgresStore, outbox};

#[async_trait]
impl Entities for PostgresStore {
    async fn list_rows(&self, table: EntityTable) -> Stored<Vec<EntityRow>> {
        self.database.read(move |work| async move { list_since(&work, table, -1).await }).await
    }

    async fn change_rows(
        &self,
        table: EntityTable,
        decide: Decide<'_>,
        entry: Noted<'_>,
    ) -> Stored<Vec<EntityRow>> {
        // The lock of the counter keeps all other changes of the table out.
        let change = move |work: Work| async move {
            let rows = list_since(&work, table, -1).await?;
            if let Some(stored) = decide(&rows)? {
                put(&work, table, &rows, &stored).await?;
                outbox::add(&work, entry, &[]).await?;
            }
            Ok(rows)
        };
        self.database.change(Counter::of(table), change).await
    }

    async fn check_accounts(&self) -> Stored<()> {
        self.fault_of(Counter::Accounts).await?.map_or(Ok(()), |fault| Err(StoreError::Tampered(fault)))
    }

    async fn note_use(&self, table: EntityTable, id: &str, at: Timestamp) -> Stored<()> {
        let table = table.name();
        // Nulls do not count for the greatest.
        let note = format!("UPDATE {table} SET last_used_at = greatest(last_used_at, $2) WHERE id = $1");
        self.database.execute(&note, &[&id, &at.millis()]).await.map(|_| ())
    }
}

/// The rows of a table that changed after a number, or all of them after -1, in the order in which they were first stored.
pub(crate) async fn list_since(work: &Work, table: EntityTable, number: i64) -> Tried<Vec<EntityRow>> {
    let list = format!(
        "SELECT id, family, body, last_used_at,
             (SELECT coalesce(sum(hits), 0)::bigint FROM usage WHERE usage.token = entity.id)
         FROM {} AS entity WHERE number > $1 ORDER BY place",
        table.name()
    );
    let row = |row: &Row| EntityRow {
        id: row.get(0),
        family: row.get(1),
        body: row.get(2),
        last_used_at: row.get(3),
        hits: unsigned(row.get(4)),
    };
    Ok(work.query(&list, &[&number]).await?.iter().map(row).collect())
}

/// Stores rows, each in place of the one with its id among those that are held.
pub(crate) async fn put(
    work: &Work,
    table: EntityTable,
    held: &[EntityRow],
    rows: &[EntityRow],
) -> Tried<()> {
    let put = format!(
        "INSERT INTO {} (id, family, body, number) VALUES ($1, $2, $3, $4)
         ON CONFLICT (id) DO UPDATE SET family = excluded.family, body = excluded.body, number = excluded.number",
        table.name()
    );
    for (at, row) in rows.iter().enumerate() {
        let before = rows[..at].iter().rev().chain(held).find(|before| before.id == row.id);
        let [before, after] = [before, Some(row)].map(|row| row.map(|row| BoundRow::Entity(table, row)));
        work.replace(before, after);
        work.execute(&put, &[&row.id, &row.family, &row.body, &work.number]).await?;
    }
    Ok(())
}
