//! The rows of tokens, users and admin tokens.

use contactd_core::store::{EntityRow, EntityTable};
use rusqlite::{Connection, Result, params};

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
