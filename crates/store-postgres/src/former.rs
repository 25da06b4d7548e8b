//! What imports changed or withdrew, as it was before, so that they can be undone.

use contactd_core::store::merge::{Fate, HeldDetail};
use contactd_core::store::place::first_id_of_key;
use contactd_core::store::{DetailFilter, FormerDetail, FormerTotal};
use contactd_core::{Profile, Timestamp};
use tokio_postgres::Row;

use crate::database::Work;
use crate::failure::Tried;
use crate::rows::{HeldRow, Sources};

/// A kept row.
pub(crate) struct FormerRow {
    pub(crate) import: i64,
    pub(crate) place: i64,
    pub(crate) fate: Fate,
    pub(crate) row: HeldRow,
}

/// The columns of [`HeldRow::read`] and three more.
const COLUMNS: &str =
    "id, profile, kind, label, value, source, confidence, observed_at, basis, expires_at, added_by,
    said_by, import, place, is_withdrawn";

fn read(row: &Row, sources: &Sources) -> Tried<FormerRow> {
    let fate = if row.get(14) { Fate::Withdrawn } else { Fate::Changed };
    Ok(FormerRow { import: row.get(12), place: row.get(13), fate, row: HeldRow::read(row, sources)? })
}

/// Up to `limit` places of an import's rows, after this one.
pub(crate) async fn places(work: &Work, import: i64, after: i64, limit: i64) -> Tried<Vec<i64>> {
    let find = "SELECT DISTINCT place FROM former WHERE import = $1 AND place > $2 ORDER BY place LIMIT $3";
    let rows = work.query(find, &[&import, &after, &limit]).await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

/// An import's rows at these places, the last one first.
pub(crate) async fn at_places(
    work: &Work,
    sources: &Sources,
    import: i64,
    places: &[i64],
) -> Tried<Vec<FormerRow>> {
    let find =
        format!("SELECT {COLUMNS} FROM former WHERE import = $1 AND place = ANY($2) ORDER BY place, id DESC");
    let rows = work.query(&find, &[&import, &places]).await?;
    rows.iter().map(|row| read(row, sources)).collect()
}

/// Everything that is kept of a profile, the oldest import first.
async fn of_profile(work: &Work, profile: &Profile) -> Tried<Vec<FormerRow>> {
    let sources = Sources::read(work).await?;
    let find = format!("SELECT {COLUMNS} FROM former WHERE place = $1 AND profile = $2 ORDER BY import, id");
    let place = first_id_of_key(profile.key(), 0);
    let rows = work.query(&find, &[&place, &profile.key()]).await?;
    rows.iter().map(|row| read(row, &sources)).collect()
}

pub(crate) async fn list(work: &Work, profile: &Profile) -> Tried<Vec<FormerDetail>> {
    let mut list = Vec::new();
    for FormerRow { import, row, .. } in of_profile(work, profile).await? {
        let when = "SELECT imported_at FROM imports WHERE id = $1";
        let imported_at = Timestamp::from_millis(work.query_one(when, &[&import]).await?.get(0));
        list.push(FormerDetail { import, imported_at, detail: row.held.detail });
    }
    Ok(list)
}

/// Removes what the filter selects; returns the details, without those of the same profile, kind, value and source twice.
pub(crate) async fn remove(work: &Work, profile: &Profile, which: &DetailFilter) -> Tried<Vec<HeldDetail>> {
    let mut ids = Vec::new();
    let mut removed: Vec<HeldDetail> = Vec::new();
    for FormerRow { row, .. } in of_profile(work, profile).await? {
        if which.matches(&row.held.detail) {
            ids.push(row.id);
            if !removed.iter().any(|other| other.detail.is_same(&row.held.detail)) {
                removed.push(row.held);
            }
        }
    }
    work.execute("DELETE FROM former WHERE id = ANY($1)", &[&ids]).await?;
    Ok(removed)
}

pub(crate) async fn total(work: &Work) -> Tried<FormerTotal> {
    // A row also has ten numbers, the header of a row, and its places in four indexes.
    let total = "SELECT count(*), coalesce(sum(160 + octet_length(profile) + octet_length(value)
                     + coalesce(octet_length(basis), 0)), 0)::bigint FROM former";
    let row = work.query_one(total, &[]).await?;
    let number = |column: usize| row.get::<_, i64>(column).cast_unsigned();
    Ok(FormerTotal { details: number(0), bytes: number(1) })
}
