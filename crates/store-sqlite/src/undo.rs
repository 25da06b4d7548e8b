//! Undoing an import.

use contactd_core::store::merge::HeldDetail;
use contactd_core::store::{Undo, Undone};
use contactd_core::{Profile, Timestamp};
use rusqlite::{Connection, Result};

use crate::former::{self, FormerRow};
use crate::profile_rows::ProfileRows;
use crate::totals;
use crate::writing::Writing;

/// Rows or places read at a time.
const CHUNK: i64 = 1_000;

/// Undoes an import if that is possible.
pub(crate) fn undo(
    connection: &Connection,
    writing: &mut Writing,
    import: i64,
    at: Timestamp,
) -> Result<Undo> {
    if let Some(reason) = find_obstacle(connection, import)? {
        return Ok(reason);
    }
    connection.execute("UPDATE imports SET undone_at = ?2 WHERE id = ?1", (import, at.millis()))?;
    let removed = remove_added(connection, writing, import)?;
    let restored = put_back(connection, writing, import, at)?;
    connection.execute("DELETE FROM former WHERE import = ?1", [import])?;
    give_older_dates(connection, import)?;
    Ok(Undo::Done(Undone { removed, restored }))
}

/// Why an import cannot be undone, if it cannot.
fn find_obstacle(connection: &Connection, import: i64) -> Result<Option<Undo>> {
    let found = totals::imports(connection, &format!("WHERE id = {import}"))?.pop();
    let Some(found) = found else { return Ok(Some(Undo::Unknown)) };
    let later: Option<i64> = connection.query_row(
        "SELECT max(imports.id) FROM imports
         JOIN import_sources AS later ON later.import = imports.id
         JOIN import_sources AS this ON this.source = later.source
         WHERE this.import = ?1 AND imports.id > ?1 AND imports.undone_at IS NULL",
        [import],
        |row| row.get(0),
    )?;
    Ok(found.obstacle(later))
}

/// Removes the details that the import added and that are still held; returns how many.
fn remove_added(connection: &Connection, writing: &mut Writing, import: i64) -> Result<u64> {
    let (mut removed, mut after) = (0, -1);
    let mut find = connection
        .prepare("SELECT id, profile FROM details WHERE id > ?1 AND import = ?2 ORDER BY id LIMIT ?3")?;
    loop {
        let rows: Vec<(i64, String)> = find
            .query_map((after, import, CHUNK), |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<Result<_>>()?;
        let Some(&(last, _)) = rows.last() else { return Ok(removed) };
        let mut profiles: Vec<String> = rows.into_iter().map(|(_, profile)| profile).collect();
        profiles.dedup();
        for key in profiles {
            let profile = Profile::from_key(&key);
            let is_gone = |stored: &HeldDetail| stored.import == import;
            removed += writing.take_away(connection, &profile, is_gone)?.gone.len() as u64;
        }
        after = last;
    }
}

/// Puts back what the import changed and withdrew; returns how many details.
fn put_back(connection: &Connection, writing: &mut Writing, import: i64, at: Timestamp) -> Result<u64> {
    let (mut restored, mut after) = (0, -1);
    loop {
        let places = former::places(connection, import, after, CHUNK)?;
        let Some(&last) = places.last() else { return Ok(restored) };
        for place in places {
            let mut rows = former::at_place(connection, import, place)?;
            rows.retain(|row| row.stored.detail.expires_at.is_none_or(|end| end.seconds() > at.seconds()));
            while let Some(first) = rows.first() {
                let key = first.profile.clone();
                let of_profile: Vec<FormerRow> = rows.extract_if(.., |row| row.profile == key).collect();
                restored += put_back_to(connection, writing, &Profile::from_key(&key), of_profile)?;
            }
        }
        after = last;
    }
}

fn put_back_to(
    connection: &Connection,
    writing: &mut Writing,
    profile: &Profile,
    former: Vec<FormerRow>,
) -> Result<u64> {
    let mut held = ProfileRows::read(connection, profile)?;
    let former = former.into_iter().map(|row| (row.fate, row.stored)).collect();
    let restored = writing.totals.put_back(&mut held.details, former);
    let touched = restored.iter().map(|held| held.detail.kind).collect();
    held.write(connection, profile, touched, &mut writing.changed)?;
    Ok(restored.len() as u64)
}

/// A detail without a date is as old as the last import that contained it. If that was the import that is undone, it is the
/// one before of the same source.
fn give_older_dates(connection: &Connection, import: i64) -> Result<()> {
    let has_ages = connection.query_row(
        "SELECT EXISTS (SELECT 1 FROM sources WHERE max_age IS NOT NULL)",
        (),
        |row| row.get(0),
    )?;
    if has_ages {
        connection.execute(
            "UPDATE details SET said_by = (
                 SELECT max(imports.id) FROM import_sources JOIN imports ON imports.id = import_sources.import
                 WHERE import_sources.source = details.source AND imports.id < ?1 AND undone_at IS NULL
             ) WHERE said_by = ?1",
            [import],
        )?;
    }
    Ok(())
}
