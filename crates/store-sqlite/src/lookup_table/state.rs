//! Which table goes with the details, and what has changed since it was made: stored in `details.db`, in the transactions that
//! change details.

use contactd_core::store::place::place_of;
use contactd_lookup_table::TableId;
use rusqlite::{Connection, Result};

/// With more changed places than this, the table is given up: it is made again.
pub(crate) const MOST_CHANGED: usize = 20_000;

/// The state of the lookup table in `details.db`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TableState {
    /// The table that goes with the details, but for the places that were changed since.
    pub(crate) id: Option<TableId>,
    /// Of the newest change of details.
    pub(crate) number: i64,
    /// All places that were changed after this number are known.
    pub(crate) complete_from: i64,
}

impl TableState {
    pub(crate) fn read(connection: &Connection) -> Result<Self> {
        let mut read = connection.prepare_cached("SELECT id, number, complete_from FROM lookup_table")?;
        read.query_row((), |row| {
            let id: Option<[u8; 16]> = row.get(0)?;
            Ok(Self { id: id.map(TableId), number: row.get(1)?, complete_from: row.get(2)? })
        })
    }

    /// Names a table that was made of the details as they were at `number`. False if it is not known what has changed since.
    pub(crate) fn name(connection: &Connection, id: TableId, number: i64) -> Result<bool> {
        let name = "UPDATE lookup_table SET id = ?1, complete_from = ?2 WHERE complete_from <= ?2";
        if connection.execute(name, (id.0, number))? == 0 {
            return Ok(false);
        }
        connection.execute("DELETE FROM lookup_changed WHERE number <= ?1", [number])?;
        Ok(true)
    }
}

/// The places that were changed after this number.
pub(crate) fn changed_after(connection: &Connection, number: i64) -> Result<Vec<i64>> {
    let mut find =
        connection.prepare_cached("SELECT DISTINCT place FROM lookup_changed WHERE number > ?1")?;
    find.query_map([number], |row| row.get(0))?.collect()
}

/// The places that one transaction changes.
#[derive(Debug, Default)]
pub(crate) struct ChangedPlaces {
    /// Empty if there are too many.
    places: Vec<i64>,
    are_too_many: bool,
}

impl ChangedPlaces {
    /// Notes that details with ids of this place have changed.
    pub(crate) fn note(&mut self, id: i64) {
        let place = place_of(id);
        if self.are_too_many || self.places.last() == Some(&place) {
            return;
        }
        self.places.push(place);
        if self.places.len() > MOST_CHANGED {
            self.note_too_many();
        }
    }

    /// Notes that more has changed than is worth to be listed.
    pub(crate) fn note_too_many(&mut self) {
        (self.places, self.are_too_many) = (Vec::new(), true);
    }

    pub(crate) fn are_too_many(&self) -> bool {
        self.are_too_many
    }

    /// Stores what has changed; call it in the same transaction, after everything else. `next`: a table made of all the details
    /// as they are now.
    pub(crate) fn store(&mut self, connection: &Connection, next: Option<TableId>) -> Result<()> {
        let Self { places, are_too_many } = std::mem::take(self);
        if places.is_empty() && !are_too_many {
            return Ok(());
        }
        connection.execute("UPDATE lookup_table SET number = number + 1", ())?;
        let mut insert = connection
            .prepare_cached("INSERT OR IGNORE INTO lookup_changed SELECT number, ?1 FROM lookup_table")?;
        for place in &places {
            insert.execute([place])?;
        }
        let mut count = connection.prepare_cached("SELECT count(*) FROM lookup_changed")?;
        let listed: usize = count.query_row((), |row| row.get(0))?;
        if are_too_many || next.is_some() || listed > MOST_CHANGED {
            let begin_anew = "UPDATE lookup_table SET id = ?1, complete_from = number";
            connection.execute(begin_anew, [next.map(|id| id.0)])?;
            connection.execute("DELETE FROM lookup_changed", ())?;
        }
        Ok(())
    }
}
