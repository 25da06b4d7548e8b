//! Names and their ids: tokens, nodes, reasons and keys occur in many lines.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension, Result};

/// The ids of names, each looked up once.
#[derive(Default)]
pub(super) struct Names(HashMap<String, i64>);

impl Names {
    pub(super) fn id(&mut self, connection: &Connection, name: &str) -> Result<i64> {
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

pub(super) fn find_name(connection: &Connection, name: &str) -> Result<Option<i64>> {
    let mut statement = connection.prepare_cached("SELECT id FROM names WHERE name = ?1")?;
    statement.query_row([name], |row| row.get(0)).optional()
}
