//! What imports changed or withdrew, as it was before, so that they can be undone.

use contactd_core::store::merge::{Fate, HeldDetail};
use contactd_core::store::place::{first_id, kind_number, label_number, observed};
use contactd_core::store::{DetailFilter, FormerDetail, FormerTotal};
use contactd_core::{Kind, Profile, Timestamp};
use rusqlite::{Connection, Result, params};

use crate::profile_rows::read_held;

/// A kept row.
pub(crate) struct FormerRow {
    id: i64,
    import: i64,
    pub(crate) profile: String,
    pub(crate) fate: Fate,
    pub(crate) stored: HeldDetail,
}

/// The columns of [`read_held`] and two more.
const COLUMNS: &str =
    "id, profile, kind, label, value, source, confidence, observed_at, basis, expires_at, added_by, said_by,
    (SELECT name FROM sources WHERE sources.id = source), import, is_withdrawn";

/// Keeps a detail as it was before an import.
pub(crate) fn keep(
    connection: &Connection,
    import: i64,
    profile: &Profile,
    stored: &HeldDetail,
    fate: Fate,
) -> Result<()> {
    let detail = &stored.detail;
    connection
        .prepare_cached(
            "INSERT INTO former (import, place, is_withdrawn, profile, kind, label, confidence, observed_at, value, source,
                 expires_at, basis, added_by, said_by)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
        )?
        .execute(params![
            import,
            first_id(profile, Kind::Phone),
            fate == Fate::Withdrawn,
            profile.key(),
            kind_number(detail.kind),
            label_number(detail.label),
            detail.confidence,
            observed(detail),
            detail.value.expose(),
            stored.source,
            detail.expires_at.map(Timestamp::seconds),
            detail.basis,
            stored.import,
            stored.said_by
        ])?;
    Ok(())
}

/// Up to `limit` places of an import's rows, after this one.
pub(crate) fn places(connection: &Connection, import: i64, after: i64, limit: i64) -> Result<Vec<i64>> {
    let mut places = connection.prepare_cached(
        "SELECT DISTINCT place FROM former WHERE import = ?1 AND place > ?2 ORDER BY place LIMIT ?3",
    )?;
    places.query_map((import, after, limit), |row| row.get(0))?.collect()
}

/// An import's rows at a place, the last one first.
pub(crate) fn at_place(connection: &Connection, import: i64, place: i64) -> Result<Vec<FormerRow>> {
    let mut rows = connection.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM former WHERE import = ?1 AND place = ?2 ORDER BY id DESC"
    ))?;
    let rows = rows.query_map((import, place), |row| {
        Ok(FormerRow {
            id: row.get(0)?,
            import: row.get(13)?,
            profile: row.get(1)?,
            fate: if row.get(14)? { Fate::Withdrawn } else { Fate::Changed },
            stored: read_held(row)?,
        })
    })?;
    rows.collect()
}

/// Everything that is kept of a profile, the oldest import first.
fn of_profile(connection: &Connection, profile: &Profile) -> Result<Vec<FormerRow>> {
    let mut kept = Vec::new();
    let mut next = 0;
    // One step from each import to the next in the index, instead of reading all of it.
    let mut find = connection.prepare_cached("SELECT min(import) FROM former WHERE import > ?1")?;
    while let Some(import) = find.query_row([next], |row| row.get::<_, Option<i64>>(0))? {
        let rows = at_place(connection, import, first_id(profile, Kind::Phone))?;
        kept.extend(rows.into_iter().rev().filter(|row| row.profile == profile.key()));
        next = import;
    }
    Ok(kept)
}

/// Whether anything is kept of a profile.
pub(crate) fn is_kept(connection: &Connection, profile: &Profile) -> Result<bool> {
    Ok(!of_profile(connection, profile)?.is_empty())
}

pub(crate) fn list(connection: &Connection, profile: &Profile) -> Result<Vec<FormerDetail>> {
    let mut when = connection.prepare_cached("SELECT imported_at FROM imports WHERE id = ?1")?;
    let former = |row: FormerRow| {
        let imported_at = Timestamp::from_millis(when.query_row([row.import], |row| row.get(0))?);
        Ok(FormerDetail { import: row.import, imported_at, detail: row.stored.detail })
    };
    of_profile(connection, profile)?.into_iter().map(former).collect()
}

/// Removes what the filter selects; returns the details, without those of the same profile, kind, value and source twice.
pub(crate) fn remove(
    connection: &Connection,
    profile: &Profile,
    which: &DetailFilter,
) -> Result<Vec<HeldDetail>> {
    let mut delete = connection.prepare_cached("DELETE FROM former WHERE id = ?1")?;
    let mut removed: Vec<HeldDetail> = Vec::new();
    for row in of_profile(connection, profile)? {
        if which.matches(&row.stored.detail) {
            delete.execute([row.id])?;
            if !removed.iter().any(|other| other.detail.is_same(&row.stored.detail)) {
                removed.push(row.stored);
            }
        }
    }
    Ok(removed)
}

pub(crate) fn total(connection: &Connection) -> Result<FormerTotal> {
    // A row also has ten numbers and its places in two indexes.
    connection.query_row(
        "SELECT count(*), coalesce(sum(60 + length(profile) + length(value) + coalesce(length(basis), 0)), 0) FROM former",
        (),
        |row| Ok(FormerTotal { details: row.get(0)?, bytes: row.get(1)? }),
    )
}
