//! Handing everything over to another engine.

use std::fmt::Write as _;

use contactd_core::store::moving::{MovedKey, MovedRows, MovedTable, Part};
use contactd_core::store::place::{IDS_OF_PLACE, place_of};
use contactd_core::store::{EntityTable, Stored};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Params, Result, Row, Statement, params};

use crate::{SqliteStore, connection};

/// Before the first key.
const BEFORE_ALL: MovedKey = (i64::MIN, i64::MIN);

impl SqliteStore {
    /// How many rows a table has.
    pub fn count_moved(&self, table: &MovedTable) -> Stored<u64> {
        let count = format!("SELECT count(*) FROM {}", table.from);
        self.with_part(table.part, |part| part.query_row(&count, (), |row| row.get(0)))
    }

    /// The rows of a table after a key: about `most` of them, or all if the table is read at once. Details of one place stay
    /// together.
    pub fn read_moved(&self, table: &MovedTable, after: Option<MovedKey>, most: u64) -> Stored<MovedRows> {
        self.with_part(table.part, |part| read(part, table, after.unwrap_or(BEFORE_ALL), most))
    }

    fn with_part<T>(&self, part: Part, work: impl FnOnce(&Connection) -> Result<T>) -> Stored<T> {
        let file = match part {
            Part::Access => self.main_file(),
            Part::Details => self.details_file(),
            Part::Index => return self.read_index(work),
        };
        connection::stored(|| work(&connection::reader(&file)?))
    }
}

fn read(part: &Connection, table: &MovedTable, after: MovedKey, most: u64) -> Result<MovedRows> {
    let from = table.from;
    let Some([first, second]) = table.key else {
        // Tokens keep their order.
        let is_entity = EntityTable::ALL.iter().any(|entities| entities.name() == from);
        let order = if is_entity { "ORDER BY rowid" } else { "" };
        return read_all(part.prepare(&format!("SELECT * FROM {from} {order}"))?, (), None);
    };
    // The row that is not read any more.
    let end = part
        .query_row(
            &format!(
                "SELECT {first}, {second} FROM {from} WHERE ({first}, {second}) > (?1, ?2)
                 ORDER BY {first}, {second} LIMIT 1 OFFSET ?3"
            ),
            params![after.0, after.1, most],
            |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)),
        )
        .optional()?;
    let next = end.map(|(first, second)| match from {
        "details" => {
            let before = place_of(first) - 1;
            let through = if before > after.0 { before } else { before + IDS_OF_PLACE };
            (through, through)
        }
        _ => (first, second - 1),
    });
    let (until_first, until_second) = next.unwrap_or((i64::MAX, i64::MAX));
    let rows = part.prepare(&format!(
        "SELECT * FROM {from} WHERE ({first}, {second}) > (?1, ?2) AND ({first}, {second}) <= (?3, ?4)
         ORDER BY {first}, {second}"
    ))?;
    read_all(rows, (after.0, after.1, until_first, until_second), next)
}

fn read_all(mut rows: Statement<'_>, range: impl Params, next: Option<MovedKey>) -> Result<MovedRows> {
    let columns: Vec<String> = rows.column_names().map(str::to_owned).collect();
    let lines = rows.query_map(range, |row| line(row, columns.len()))?;
    Ok(MovedRows { lines: lines.collect::<Result<_>>()?, columns, next })
}

/// A row, in the text format of COPY.
fn line(row: &Row<'_>, columns: usize) -> Result<String> {
    let mut line = String::new();
    for column in 0..columns {
        if column > 0 {
            line.push('\t');
        }
        match row.get_ref(column)? {
            ValueRef::Null => line.push_str("\\N"),
            ValueRef::Integer(number) => line.push_str(&number.to_string()),
            ValueRef::Real(number) => line.push_str(&number.to_string()),
            ValueRef::Text(text) => escape(&String::from_utf8_lossy(text), &mut line),
            ValueRef::Blob(bytes) => {
                line.push_str("\\\\x");
                for byte in bytes {
                    let _ = write!(line, "{byte:02x}");
                }
            }
        }
    }
    Ok(line)
}

fn escape(text: &str, line: &mut String) {
    for c in text.chars() {
        match c {
            '\\' => line.push_str("\\\\"),
            '\t' => line.push_str("\\t"),
            '\n' => line.push_str("\\n"),
            '\r' => line.push_str("\\r"),
            c => line.push(c),
        }
    }
}
