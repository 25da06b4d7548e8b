//! Keeping what the details add up to.

use std::collections::HashMap;

use contactd_core::Detail;
use rusqlite::{Connection, OptionalExtension};

use crate::details::{kind_number, label_number};

/// What writes add up to, until it is written too.
#[derive(Default)]
pub(crate) struct Writing {
    sources: HashMap<String, i64>,
    totals: HashMap<(i64, i64, i64), i64>,
    /// Profiles gained, or lost if negative.
    pub(crate) profiles: i64,
}

impl Writing {
    /// Counts a detail more or less.
    pub(crate) fn count(&mut self, source: i64, detail: &Detail, by: i64) {
        let sort = (source, kind_number(detail.kind), label_number(detail.label));
        *self.totals.entry(sort).or_default() += by;
    }

    /// The number of a source, which is given one when it is first met.
    pub(crate) fn source(&mut self, connection: &Connection, name: &str) -> rusqlite::Result<i64> {
        if let Some(&id) = self.sources.get(name) {
            return Ok(id);
        }
        let known = connection
            .prepare_cached("SELECT id FROM sources WHERE name = ?1")?
            .query_row([name], |row| row.get(0))
            .optional()?;
        let id = match known {
            Some(id) => id,
            None => {
                connection.execute("INSERT INTO sources (name) VALUES (?1)", [name])?;
                connection.last_insert_rowid()
            }
        };
        self.sources.insert(name.to_owned(), id);
        Ok(id)
    }

    /// Brings the totals up to date, in the same transaction.
    pub(crate) fn finish(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let mut add = connection.prepare_cached(
            "INSERT INTO totals VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT DO UPDATE SET count = count + excluded.count",
        )?;
        for ((source, kind, label), by) in self.totals.drain().filter(|(_, by)| *by != 0) {
            add.execute((source, kind, label, by))?;
        }
        connection
            .execute("UPDATE profile_total SET count = count + ?1", [std::mem::take(&mut self.profiles)])?;
        Ok(())
    }
}
