//! The copy of a cluster's database that a node keeps in these files.
//!
//! It is filled by a snapshot, in parts that are committed one by one with the position that was reached, so that a killed
//! node goes on from there. Afterwards it follows the database: whatever changed is applied in one transaction, together with
//! the number of the change. Applying the same twice changes nothing.
//!
//! Totals are not kept: commands ask the database for them.

mod access;
mod applying;
mod digest;
pub(crate) mod held;

use contactd_core::store::Stored;
use contactd_core::store::copying::{AccessCount, ChangePoint, CopiedDetail, CopiedSource, DetailsChunk};
use rusqlite::{Connection, OptionalExtension, Result, Row, Transaction, params};

use crate::lookup_table::ChangedPlaces;
use crate::{SqliteStore, connection};

pub use applying::ApplyingDetails;

/// How far a copy has followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyState {
    /// Which database this is a copy of.
    pub lineage: String,
    /// The last change of tokens and suppressions that it contains.
    pub access: ChangePoint,
    /// The last change of details that it contains; the one at which loading began if it is not loaded. `None` before.
    pub details: Option<ChangePoint>,
    /// Up to which id it is loaded; `None` if it is complete.
    pub loaded_through: Option<i64>,
    /// The newest change that the loaded details contain, until changes since loading began are applied.
    pub seen: Option<ChangePoint>,
    /// The last change whose removed details have left no traces in the files.
    pub wiped_number: i64,
}

/// Before the first id.
const BEFORE_ALL: i64 = -1;

impl SqliteStore {
    /// How far the copy has followed; `None` if these files are no copy, but a store of their own.
    pub fn copy_state(&self) -> Stored<Option<CopyState>> {
        let access = "SELECT lineage, number, id FROM copy";
        let access = self.with_main(|main| {
            let state = |row: &Row<'_>| Ok((row.get::<_, String>(0)?, point(row.get(1)?, row.get(2)?)));
            main.query_row(access, (), state).optional()
        })?;
        let Some((lineage, access)) = access else { return Ok(None) };
        let details = "SELECT number, id, loaded_through, wiped_number, seen_number, seen_id FROM copy";
        let details = self.read_details(|reader| {
            let state = |row: &Row<'_>| {
                let seen = row.get::<_, Option<i64>>(4)?.zip(row.get(5)?);
                let seen = seen.map(|(number, id)| point(number, id));
                Ok((point(row.get(0)?, row.get(1)?), row.get(2)?, row.get(3)?, seen))
            };
            reader.query_row(details, (), state).optional()
        })?;
        let (details, loaded_through, wiped_number, seen) = match details {
            Some((point, loaded, wiped, seen)) => (Some(point), loaded, wiped, seen),
            None => (None, None, 0, None),
        };
        Ok(Some(CopyState { lineage, access, details, loaded_through, seen, wiped_number }))
    }

    /// Whether these files are a copy, which only a node of the cluster may use.
    pub fn is_copy(&self) -> Stored<bool> {
        self.copy_state().map(|state| state.is_some())
    }

    /// Whether these files hold anything that a copy would replace: details, tokens, accounts or suppressions.
    pub fn holds_anything(&self) -> Stored<bool> {
        let access = "SELECT EXISTS (SELECT 1 FROM tokens) OR EXISTS (SELECT 1 FROM suppressions)
            OR EXISTS (SELECT 1 FROM users) OR EXISTS (SELECT 1 FROM admin_tokens)";
        let details = "SELECT EXISTS (SELECT 1 FROM details) OR EXISTS (SELECT 1 FROM imports)";
        Ok(self.with_main(|main| main.query_row(access, (), |row| row.get(0)))?
            || self.read_details(|reader| reader.query_row(details, (), |row| row.get(0)))?)
    }

    /// How many tokens and suppressions the copy has.
    pub fn count_access(&self) -> Stored<AccessCount> {
        let count = "SELECT (SELECT count(*) FROM tokens), (SELECT count(*) FROM suppressions)";
        let counted = |row: &Row<'_>| Ok(AccessCount { tokens: row.get(0)?, suppressions: row.get(1)? });
        self.with_main(|main| main.query_row(count, (), counted))
    }

    /// Makes these files a copy of a database. What they held as a copy of another one goes when it is loaded. Accounts are
    /// only in the database.
    pub fn begin_copy(&self, lineage: &str) -> Stored<()> {
        self.change_main(|transaction| {
            transaction.execute_batch("DELETE FROM copy; DELETE FROM users; DELETE FROM admin_tokens;")?;
            transaction.execute("INSERT INTO copy VALUES (?1, 0, x'')", [lineage]).map(|_| ())
        })
    }

    /// Begins to load all details anew. Those that are held stay until the same range of ids is loaded. `from` is the
    /// newest change before loading.
    pub fn begin_snapshot(&self, from: &ChangePoint) -> Stored<()> {
        self.change_copy(|transaction| {
            // If something is held, or was removed and is not wiped, its traces have to go when all is loaded.
            let clean = "SELECT NOT EXISTS (SELECT 1 FROM details)
                AND NOT EXISTS (SELECT 1 FROM copy WHERE wiped_number < number)";
            let is_clean: bool = transaction.query_row(clean, (), |row| row.get(0))?;
            let wiped = if is_clean { from.number } else { -1 };
            transaction.execute("DELETE FROM copy", ())?;
            let begin = "INSERT INTO copy VALUES (?1, ?2, ?3, ?4, NULL, NULL)";
            transaction.execute(begin, params![from.number, from.id, BEFORE_ALL, wiped]).map(|_| ())
        })
        .map(|_| ())
    }

    /// Replaces the details after `after` up to the end of a chunk, and notes that position. The log is emptied afterwards.
    pub fn load_chunk(&self, after: i64, chunk: &DetailsChunk) -> Stored<()> {
        let writer = self.change_copy(|transaction| {
            put_sources(transaction, &chunk.sources)?;
            let through = chunk.through.unwrap_or(i64::MAX);
            transaction.execute("DELETE FROM details WHERE id > ?1 AND id <= ?2", (after, through))?;
            let mut insert = transaction.prepare_cached(INSERT)?;
            chunk.details.iter().try_for_each(|detail| insert_detail(&mut insert, detail))?;
            let mut changed = ChangedPlaces::default();
            changed.note_too_many();
            changed.store(transaction, None)?;
            let note = "UPDATE copy SET loaded_through = ?1, seen_number = ?2, seen_id = ?3";
            transaction.execute(note, params![chunk.through, chunk.at.number, chunk.at.id]).map(|_| ())
        })?;
        connection::stored(|| connection::empty_wal(&writer).map(|_| ()))
    }

    /// Notes that no traces of what was removed up to this change are left.
    pub fn note_wiped(&self, number: i64) -> Stored<()> {
        let note = "UPDATE copy SET wiped_number = max(wiped_number, ?1)";
        self.change_copy(|transaction| transaction.execute(note, [number]).map(|_| ())).map(|_| ())
    }

    /// Changes details in one transaction, on a connection of its own, which is returned.
    fn change_copy(&self, change: impl FnOnce(&Transaction<'_>) -> Result<()>) -> Stored<Connection> {
        connection::stored(|| {
            let mut writer = connection::writer(&self.details_file())?;
            writer.execute_batch("PRAGMA cache_size = -65536")?;
            let transaction = connection::write(&mut writer)?;
            change(&transaction)?;
            transaction.commit()?;
            Ok(writer)
        })
    }
}

const INSERT: &str = "INSERT INTO details VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";

fn insert_detail(insert: &mut rusqlite::Statement<'_>, detail: &CopiedDetail) -> Result<()> {
    insert
        .execute(params![
            detail.id,
            detail.profile,
            detail.kind,
            detail.label,
            detail.confidence,
            detail.observed_at,
            detail.value,
            detail.source,
            detail.expires_at,
            detail.basis,
            detail.import,
            detail.said_by
        ])
        .map(|_| ())
}

/// Stores sources under the ids that they have in the database.
fn put_sources(connection: &Connection, sources: &[CopiedSource]) -> Result<()> {
    let mut forget = connection.prepare_cached("DELETE FROM sources WHERE name = ?1 AND id <> ?2")?;
    let mut put = connection.prepare_cached(
        "INSERT INTO sources (id, name, max_age) VALUES (?1, ?2, ?3)
         ON CONFLICT (id) DO UPDATE SET name = excluded.name, max_age = excluded.max_age",
    )?;
    for source in sources {
        forget.execute(params![source.name, source.id])?;
    }
    for source in sources {
        // Two names may change places; no two rows can have the same name meanwhile.
        connection
            .prepare_cached("UPDATE sources SET name = char(0) || id WHERE id = ?1 AND name <> ?2")?
            .execute(params![source.id, source.name])?;
    }
    for source in sources {
        put.execute(params![source.id, source.name, source.max_age])?;
    }
    Ok(())
}

fn point(number: i64, id: Vec<u8>) -> ChangePoint {
    ChangePoint { number, id }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_after_removals_that_were_not_wiped_is_not_clean() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = SqliteStore::open(dir.path()).expect("opens");
        store.begin_copy("lineage").expect("begins");
        let at = |number: i64| ChangePoint { number, id: vec![7] };
        let wiped = || store.copy_state().expect("reads").expect("a copy").wiped_number;
        store.begin_snapshot(&at(3)).expect("begins");
        assert_eq!(wiped(), 3, "nothing was ever held");
        // What change 4 removed is not wiped yet.
        let removed = "UPDATE copy SET number = 4, loaded_through = NULL";
        connection::writer(&store.details_file()).expect("opens").execute(removed, ()).expect("updates");
        store.begin_snapshot(&at(9)).expect("begins");
        assert_eq!(wiped(), -1);
    }
}
