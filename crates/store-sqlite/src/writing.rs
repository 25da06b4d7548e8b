//! Keeping the totals up to date with the details.

use std::collections::HashMap;

use contactd_core::Profile;
use contactd_core::store::merge::{HeldDetail, TakenAway, TotalChanges};
use contactd_core::store::place::{kind_number, label_number};
use rusqlite::{Connection, OptionalExtension, Result};

use crate::profile_rows::ProfileRows;

/// Changes to the totals, collected until [`Writing::finish`] writes them.
#[derive(Default)]
pub(crate) struct Writing {
    pub(crate) sources: SourceIds,
    pub(crate) totals: TotalChanges,
}

/// The ids of sources by name, each read once.
#[derive(Default)]
pub(crate) struct SourceIds(HashMap<String, i64>);

impl SourceIds {
    /// The id of a source; a new source is added.
    pub(crate) fn of(&mut self, connection: &Connection, name: &str) -> Result<i64> {
        if let Some(&id) = self.0.get(name) {
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
        self.0.insert(name.to_owned(), id);
        Ok(id)
    }
}

impl Writing {
    /// Removes the details of a profile for which `is_gone` is true.
    pub(crate) fn take_away(
        &mut self,
        connection: &Connection,
        profile: &Profile,
        is_gone: impl Fn(&HeldDetail) -> bool,
    ) -> Result<TakenAway> {
        let mut rows = ProfileRows::read(connection, profile)?;
        let taken = self.totals.take_away(&mut rows.details, is_gone);
        rows.write(connection, profile, taken.gone.iter().collect())?;
        Ok(taken)
    }

    /// Updates the totals; call it in the same transaction.
    pub(crate) fn finish(&mut self, connection: &Connection) -> Result<()> {
        let mut add = connection.prepare_cached(
            "INSERT INTO totals VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT DO UPDATE SET count = count + excluded.count",
        )?;
        let TotalChanges { details, profiles } = std::mem::take(&mut self.totals);
        for ((source, kind, label), by) in details.into_iter().filter(|(_, by)| *by != 0) {
            add.execute((source, kind_number(kind), label_number(label), by))?;
        }
        connection.execute("UPDATE profile_total SET count = count + ?1", [profiles])?;
        Ok(())
    }
}
