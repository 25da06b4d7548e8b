//! Undoing an import.

use std::collections::HashMap;

use contactd_core::Timestamp;
use contactd_core::store::merge::TotalChanges;
use contactd_core::store::{Undo, Undone};

use crate::database::Work;
use crate::failure::Tried;
use crate::former::{self, FormerRow};
use crate::places::{Place, Rewrite, places_of, take_away, write_totals};
use crate::rows::Sources;
use crate::totals;
use crate::work::Cursor;

/// Places read at a time.
const CHUNK: i64 = 2_000;
/// Details found at a time.
const FOUND: usize = 2_000;

/// Undoes an import if that is possible.
pub(crate) async fn undo(work: &Work, import: i64, at: Timestamp) -> Tried<Undo> {
    if let Some(reason) = find_obstacle(work, import).await? {
        return Ok(reason);
    }
    let done = "UPDATE imports SET undone_at = $2 WHERE id = $1";
    work.execute(done, &[&import, &at.millis()]).await?;
    let sources = Sources::read(work).await?;
    let mut totals = TotalChanges::default();
    let removed = remove_added(work, &sources, &mut totals, import).await?;
    let restored = put_back(work, &sources, &mut totals, import, at).await?;
    write_totals(work, totals).await?;
    work.execute("DELETE FROM former WHERE import = $1", &[&import]).await?;
    if !sources.aged.is_empty() {
        give_older_dates(work, &sources, import).await?;
    }
    Ok(Undo::Done(Undone { removed, restored }))
}

/// Why an import cannot be undone, if it cannot.
async fn find_obstacle(work: &Work, import: i64) -> Tried<Option<Undo>> {
    let found = totals::imports(work, &format!("WHERE id = {import}")).await?.pop();
    let Some(found) = found else { return Ok(Some(Undo::Unknown)) };
    let later = "SELECT max(imports.id) FROM imports
                 JOIN import_sources AS later ON later.import = imports.id
                 JOIN import_sources AS this ON this.source = later.source
                 WHERE this.import = $1 AND imports.id > $1 AND imports.undone_at IS NULL";
    let later = work.query_one(later, &[&import]).await?;
    Ok(found.obstacle(later.get(0)))
}

/// Removes the details that the import added and that are still held; returns how many.
async fn remove_added(work: &Work, sources: &Sources, totals: &mut TotalChanges, import: i64) -> Tried<u64> {
    let mut removed = 0;
    let mut found = find(work, "import", import).await?;
    loop {
        let places = next_places(&mut found).await?;
        if places.is_empty() {
            return Ok(removed);
        }
        let gone = take_away(work, sources, totals, &places, |_, held| held.import == import).await?;
        removed += gone.len() as u64;
    }
}

/// Details with this number in a column that has no index: found in one pass over the table, whatever the server knows about it.
async fn find<'a>(work: &'a Work, column: &'static str, import: i64) -> Tried<Cursor<'a>> {
    let find = format!("SELECT id FROM details WHERE {column} = $1 ORDER BY id");
    Ok(work.cursor(column, &find, &[&import]).await?)
}

/// The places of the next of them; none if there are no more.
async fn next_places(found: &mut Cursor<'_>) -> Tried<Vec<i64>> {
    Ok(places_of(found.next(FOUND).await?.iter().map(|row| row.get(0))))
}

/// Puts back what the import changed and withdrew; returns how many details.
async fn put_back(
    work: &Work,
    sources: &Sources,
    totals: &mut TotalChanges,
    import: i64,
    at: Timestamp,
) -> Tried<u64> {
    let (mut restored, mut after) = (0, -1_i64);
    loop {
        let places = former::places(work, import, after, CHUNK).await?;
        let Some(&last) = places.last() else { return Ok(restored) };
        let mut rows = former::at_places(work, sources, import, &places).await?;
        let has_ended =
            |row: &FormerRow| row.row.held.detail.expires_at.is_some_and(|end| end.seconds() <= at.seconds());
        rows.retain(|row| !has_ended(row));
        let mut rows = rows.into_iter().peekable();
        let mut rewrite = Rewrite::new(work.number);
        for mut place in Place::read(work, sources, &places).await? {
            let mut by_profile: Vec<(String, Vec<_>)> = Vec::new();
            while let Some(FormerRow { fate, row, .. }) = rows.next_if(|row| row.place == place.first) {
                match by_profile.iter_mut().find(|(profile, _)| *profile == row.profile) {
                    Some((_, former)) => former.push((fate, row.held)),
                    None => by_profile.push((row.profile, vec![(fate, row.held)])),
                }
            }
            let mut of_place = 0;
            for (profile, former) in by_profile {
                of_place += totals.put_back(place.held_by(&profile), former).len() as u64;
            }
            if of_place > 0 {
                rewrite.add(place)?;
            }
            restored += of_place;
        }
        rewrite.write(work).await?;
        after = last;
    }
}

/// A detail without a date is as old as the last import that contained it. If that was the import that is undone, it is the
/// one before of the same source.
async fn give_older_dates(work: &Work, sources: &Sources, import: i64) -> Tried<()> {
    let earlier = "SELECT import_sources.source, max(imports.id)
                   FROM import_sources JOIN imports ON imports.id = import_sources.import
                   WHERE imports.id < $1 AND undone_at IS NULL GROUP BY import_sources.source";
    let earlier = work.query(earlier, &[&import]).await?;
    let earlier: HashMap<i64, i64> =
        earlier.iter().map(|row| (row.get::<_, i32>(0).into(), row.get(1))).collect();
    let mut found = find(work, "said_by", import).await?;
    loop {
        let places = next_places(&mut found).await?;
        if places.is_empty() {
            return Ok(());
        }
        let mut rewrite = Rewrite::new(work.number);
        for mut place in Place::read(work, sources, &places).await? {
            let held = place.profiles.iter_mut().flat_map(|(_, held)| held);
            for held in held.filter(|held| held.said_by == Some(import)) {
                held.said_by = earlier.get(&held.source).copied();
            }
            rewrite.add(place)?;
        }
        rewrite.write(work).await?;
    }
}
