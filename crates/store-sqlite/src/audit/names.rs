//! Names and their ids: tokens, nodes, reasons and keys occur in many lines.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension};

use super::TABLES;

/// The ids of names, each looked up once.
#[derive(Default)]
pub(super) struct Names(HashMap<String, i64>);

impl Names {
    /// The id of a node. The first node that is named takes over what belongs to the node without a name.
    pub(super) fn node(&mut self, connection: &Connection, node: &str) -> rusqlite::Result<i64> {
        let id = self.id(connection, node)?;
        if let Some(unnamed) = find_name(connection, "")?.filter(|unnamed| *unnamed != id) {
            connection.execute(
                "INSERT INTO usage SELECT ?1, token, day, hits, misses, refused FROM usage WHERE node = ?2
                 ON CONFLICT DO UPDATE SET hits = hits + excluded.hits, misses = misses + excluded.misses,
                     refused = refused + excluded.refused",
                (id, unnamed),
            )?;
            for table in ["events", "admin_events", "positions"] {
                let update = format!("UPDATE OR IGNORE {table} SET node = ?1 WHERE node = ?2");
                connection.execute(&update, (id, unnamed))?;
            }
            for table in TABLES {
                connection.execute(&format!("DELETE FROM {table} WHERE node = ?1"), [unnamed])?;
            }
            connection.execute("DELETE FROM names WHERE id = ?1", [unnamed])?;
        }
        Ok(id)
    }

    pub(super) fn id(&mut self, connection: &Connection, name: &str) -> rusqlite::Result<i64> {
        if let Some(&id) = self.0.get(name) {
            return Ok(id);
        }
        let known = find_name(connection, name)?;
        let id = match known {
            Some(id) => id,
            None => {
                connection.execute("INSERT INTO names (name) VALUES (?1)", [name])?;
                connection.last_insert_rowid()
            }
        };
        self.0.insert(name.to_owned(), id);
        Ok(id)
    }
}

pub(super) fn find_name(connection: &Connection, name: &str) -> rusqlite::Result<Option<i64>> {
    let mut statement = connection.prepare_cached("SELECT id FROM names WHERE name = ?1")?;
    statement.query_row([name], |row| row.get(0)).optional()
}
