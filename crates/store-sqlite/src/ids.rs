//! Names and their ids: sources, tokens, nodes, reasons and keys occur in many rows.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension, Result};

/// The ids of names in a table, each looked up once.
#[derive(Default)]
pub(crate) struct Ids(HashMap<String, i64>);

impl Ids {
    /// The id of a name; a new name is added.
    pub(crate) fn of(&mut self, connection: &Connection, table: &str, name: &str) -> Result<i64> {
        if let Some(&id) = self.0.get(name) {
            return Ok(id);
        }
        let id = match find_id(connection, table, name)? {
            Some(id) => id,
            None => {
                connection.execute(&format!("INSERT INTO {table} (name) VALUES (?1)"), [name])?;
                connection.last_insert_rowid()
            }
        };
        self.0.insert(name.to_owned(), id);
        Ok(id)
    }
}

/// The id of a name in a table, if it is there.
pub(crate) fn find_id(connection: &Connection, table: &str, name: &str) -> Result<Option<i64>> {
    let mut find = connection.prepare_cached(&format!("SELECT id FROM {table} WHERE name = ?1"))?;
    find.query_row([name], |row| row.get(0)).optional()
}
