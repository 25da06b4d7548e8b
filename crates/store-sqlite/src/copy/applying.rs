//! Applying changes of details.

use std::path::PathBuf;

use contactd_core::store::Stored;
use contactd_core::store::copying::{ChangePoint, CopiedDetail, DetailsChanges};
use contactd_core::store::place::{IDS_OF_PLACE, place_of};
use rusqlite::{Connection, Result, params};

use super::{INSERT, insert_detail, put_sources};
use crate::lookup_table::ChangedPlaces;
use crate::steady::SteadySync;
use crate::{SqliteStore, WAL_LIMIT, connection};

/// Changes that are being applied in one transaction, on a connection of their own. Dropping it changes nothing.
pub struct ApplyingDetails {
    file: PathBuf,
    connection: Connection,
    steady: SteadySync,
    has_removed: bool,
    changed: ChangedPlaces,
}

impl SqliteStore {
    /// Begins to apply changes of details. Lookups go on meanwhile, with what they had before.
    pub fn apply_details(&self) -> Stored<ApplyingDetails> {
        connection::stored(|| {
            let file = self.details_file();
            let connection = connection::writer(&file)?;
            // What is in memory when it commits is written at once. Changes come in the order of their ids, so little is enough.
            connection.execute_batch("PRAGMA cache_size = -4096; BEGIN IMMEDIATE")?;
            Ok(ApplyingDetails {
                steady: SteadySync::of(&file),
                file,
                connection,
                has_removed: false,
                changed: ChangedPlaces::default(),
            })
        })
    }
}

impl ApplyingDetails {
    /// Replaces the details of all places in these changes.
    pub fn put(&mut self, changes: &DetailsChanges) -> Stored<()> {
        connection::stored(|| self.put_all(changes))?;
        self.steady.sync();
        Ok(())
    }

    fn put_all(&mut self, changes: &DetailsChanges) -> Result<()> {
        put_sources(&self.connection, &changes.sources)?;
        for details in changes.details.chunk_by(|one, next| place_of(one.id) == place_of(next.id)) {
            let place = details.first().map_or(0, |detail| place_of(detail.id));
            self.empty(place, details)?;
            let mut insert = self.connection.prepare_cached(INSERT)?;
            details.iter().try_for_each(|detail| insert_detail(&mut insert, detail))?;
        }
        changes.emptied.iter().try_for_each(|place| self.empty(*place, &[]))
    }

    /// Removes the details of a place, to be followed by these.
    fn empty(&mut self, place: i64, next: &[CopiedDetail]) -> Result<()> {
        self.changed.note(place);
        let (first, last) = (place, place + IDS_OF_PLACE - 1);
        if !self.has_removed {
            let mut read = self
                .connection
                .prepare_cached("SELECT profile, value FROM details WHERE id BETWEEN ?1 AND ?2")?;
            let mut held = read.query((first, last))?;
            while let Some(row) = held.next()? {
                let (profile, value) = (row.get_ref(0)?.as_str()?, row.get_ref(1)?.as_str()?);
                if !next.iter().any(|detail| detail.profile == profile && detail.value == value) {
                    self.has_removed = true;
                    break;
                }
            }
        }
        self.connection
            .prepare_cached("DELETE FROM details WHERE id BETWEEN ?1 AND ?2")?
            .execute((first, last))?;
        Ok(())
    }

    /// Commits, with the newest change that is contained. Returns whether values were removed, whose traces are still in the
    /// files.
    pub fn commit(mut self, at: &ChangePoint) -> Stored<bool> {
        let note = if self.has_removed {
            "UPDATE copy SET number = ?1, id = ?2, seen_number = NULL, seen_id = NULL"
        } else {
            // What was clean before is clean now.
            "UPDATE copy SET wiped_number = CASE WHEN wiped_number = number THEN ?1 ELSE wiped_number END,
                 number = ?1, id = ?2, seen_number = NULL, seen_id = NULL"
        };
        connection::stored(|| {
            self.connection.execute(note, params![at.number, at.id])?;
            self.changed.store(&self.connection, None)?;
            self.connection.execute_batch("COMMIT")?;
            // Otherwise readers search a long log for every page. If one of them prevents it, the server tidies it later.
            if connection::wal_bytes(&self.file) > WAL_LIMIT {
                connection::empty_wal(&self.connection)?;
            }
            Ok(self.has_removed)
        })
    }
}
