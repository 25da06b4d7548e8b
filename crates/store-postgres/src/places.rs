//! Changing details: place by place.
//!
//! A place is the range of ids of one hash (`contactd_core::store::place`). Whoever changes a row of a place writes all of them
//! again with the number of the change, and leaves a tombstone if there are none left. So a node that asks for everything
//! newer than a number gets whole places.

use contactd_core::store::merge::{Fate, HeldDetail, TotalChanges};
use contactd_core::store::place::{
    IDS_OF_KIND, IDS_OF_PLACE, first_id_of_key, kind_number, label_number, no_room, place_of,
};
use contactd_core::{Kind, Profile};

use crate::database::Work;
use crate::failure::Tried;
use crate::rows::{COLUMNS, COPY_FORMER, CopyRows, HeldRow, Sources, copy_details};

/// All that is held at one place.
pub(crate) struct Place {
    pub(crate) first: i64,
    /// The ids of its rows in the table.
    ids: Vec<i64>,
    /// Mostly one.
    pub(crate) profiles: Vec<(String, Vec<HeldDetail>)>,
}

impl Place {
    /// A place with these rows. The rows of a kind come in order of preference.
    pub(crate) fn of(first: i64, rows: impl IntoIterator<Item = HeldRow>) -> Self {
        let mut place = Self { first, ids: Vec::new(), profiles: Vec::new() };
        for HeldRow { id, profile, held } in rows {
            place.ids.push(id);
            place.held_by(&profile).push(held);
        }
        place
    }

    /// What a profile of this place holds.
    pub(crate) fn held_by(&mut self, profile: &str) -> &mut Vec<HeldDetail> {
        let at = match self.profiles.iter().position(|(key, _)| key == profile) {
            Some(at) => at,
            None => {
                self.profiles.push((profile.to_owned(), Vec::new()));
                self.profiles.len() - 1
            }
        };
        &mut self.profiles[at].1
    }

    /// Reads places, in order. Those that hold nothing are empty.
    pub(crate) async fn read(work: &Work, sources: &Sources, places: &[i64]) -> Tried<Vec<Self>> {
        let mut rows = Self::rows(work, sources, places).await?.into_iter().peekable();
        let mut read = Vec::with_capacity(places.len());
        for &first in places {
            let here = std::iter::from_fn(|| rows.next_if(|row| place_of(row.id) == first));
            read.push(Self::of(first, here));
        }
        Ok(read)
    }

    /// The rows of places, which have to be given in order.
    pub(crate) async fn rows(work: &Work, sources: &Sources, places: &[i64]) -> Tried<Vec<HeldRow>> {
        // OFFSET 0 makes PostgreSQL look up each place on its own, whatever it knows about the size of the table.
        let select = format!(
            "SELECT held.* FROM unnest($1::bigint[]) WITH ORDINALITY AS asked (place, at)
             CROSS JOIN LATERAL (
                 SELECT {COLUMNS} FROM details
                 WHERE id >= asked.place AND id < asked.place + {IDS_OF_PLACE} ORDER BY id OFFSET 0
             ) AS held
             ORDER BY asked.at, held.id"
        );
        let rows = work.query(&select, &[&places]).await?;
        rows.iter().map(|row| HeldRow::read(row, sources)).collect()
    }

    /// The places of profiles, in order, each once.
    pub(crate) fn of_profiles<'a>(profiles: impl IntoIterator<Item = &'a Profile>) -> Vec<i64> {
        let mut places: Vec<i64> =
            profiles.into_iter().map(|profile| first_id_of_key(profile.key(), 0)).collect();
        places.sort_unstable();
        places.dedup();
        places
    }
}

/// Places to be written, and details to be kept so that an import can be undone.
pub(crate) struct Rewrite {
    number: i64,
    /// Where details are copied to.
    table: &'static str,
    /// Whether a place that is filled may have a tombstone.
    has_tombstones: bool,
    removed: Vec<i64>,
    emptied: Vec<i64>,
    filled: Vec<i64>,
    details: CopyRows,
    former: CopyRows,
}

impl Rewrite {
    /// Nothing yet, by the change with this number.
    pub(crate) fn new(number: i64) -> Self {
        Self::into(number, "details", true)
    }

    /// The same for a table that is like that of details. `has_tombstones` is false if no place has one.
    pub(crate) fn into(number: i64, table: &'static str, has_tombstones: bool) -> Self {
        Self {
            number,
            table,
            has_tombstones,
            removed: Vec::new(),
            emptied: Vec::new(),
            filled: Vec::new(),
            details: CopyRows::new(),
            former: CopyRows::new(),
        }
    }

    /// About how many rows there are to write.
    pub(crate) fn rows(&self) -> usize {
        self.removed.len() + self.details.rows + self.former.rows
    }

    /// Writes a place as it is now: the best detail of each profile and kind first.
    pub(crate) fn add(&mut self, mut place: Place) -> Tried<()> {
        let was_empty = place.ids.is_empty();
        self.removed.append(&mut place.ids);
        for (_, held) in &mut place.profiles {
            held.sort_by(|a, b| {
                let kinds = kind_number(a.detail.kind).cmp(&kind_number(b.detail.kind));
                kinds.then_with(|| a.preference().cmp(&b.preference()))
            });
        }
        let mut is_empty = true;
        for kind in Kind::ALL {
            let first = place.first + kind_number(kind) * IDS_OF_KIND;
            let mut free = first..first + IDS_OF_KIND;
            for (profile, held) in &place.profiles {
                for held in held.iter().filter(|held| held.detail.kind == kind) {
                    let id = free.next().ok_or_else(no_room)?;
                    self.details.detail(id, self.number, profile, held);
                    is_empty = false;
                }
            }
        }
        match (was_empty, is_empty) {
            (false, true) => self.emptied.push(place.first),
            (true, false) if self.has_tombstones => self.filled.push(place.first),
            _ => {}
        }
        Ok(())
    }

    /// Keeps a detail as it was before an import.
    pub(crate) fn keep(&mut self, import: i64, place: i64, profile: &str, held: &HeldDetail, fate: Fate) {
        self.former.former(import, place, profile, held, fate);
    }

    pub(crate) async fn write(self, work: &Work) -> Tried<()> {
        let Self { number, table, removed, emptied, filled, details, former, .. } = self;
        if !removed.is_empty() {
            work.execute("DELETE FROM details WHERE id = ANY($1)", &[&removed]).await?;
        }
        if !filled.is_empty() {
            work.execute("DELETE FROM tombstones WHERE place = ANY($1)", &[&filled]).await?;
        }
        if !emptied.is_empty() {
            let add = "INSERT INTO tombstones SELECT unnest($1::bigint[]), $2
                       ON CONFLICT (place) DO UPDATE SET number = excluded.number";
            work.execute(add, &[&emptied, &number]).await?;
        }
        details.copy(work, &copy_details(table)).await?;
        former.copy(work, COPY_FORMER).await
    }
}

/// Removes the details of these profiles for which `is_gone` is true; returns them.
pub(crate) async fn take_away(
    work: &Work,
    sources: &Sources,
    totals: &mut TotalChanges,
    places: &[i64],
    is_gone: impl Fn(&str, &HeldDetail) -> bool + Send + Sync,
) -> Tried<Vec<HeldDetail>> {
    let mut rewrite = Rewrite::new(work.number);
    let mut all = Vec::new();
    for mut place in Place::read(work, sources, places).await? {
        let before = all.len();
        for (profile, held) in &mut place.profiles {
            all.extend(totals.take_away(held, |held| is_gone(profile, held)).gone);
        }
        if all.len() > before {
            rewrite.add(place)?;
        }
    }
    rewrite.write(work).await?;
    Ok(all)
}

/// Updates the totals.
pub(crate) async fn write_totals(work: &Work, changes: TotalChanges) -> Tried<()> {
    let TotalChanges { details, profiles } = changes;
    let (mut sources, mut kinds, mut labels, mut counts) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for ((source, kind, label), by) in details.into_iter().filter(|(_, by)| *by != 0) {
        sources.push(source);
        kinds.push(kind_number(kind));
        labels.push(label_number(label));
        counts.push(by);
    }
    if !counts.is_empty() {
        let add = "INSERT INTO totals
            SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[])
            ON CONFLICT (source, kind, label) DO UPDATE SET count = totals.count + excluded.count";
        work.execute(add, &[&sources, &kinds, &labels, &counts]).await?;
    }
    if profiles != 0 {
        work.execute("UPDATE profile_total SET count = count + $1", &[&profiles]).await?;
    }
    Ok(())
}

/// The places of ids that come in order, each once.
pub(crate) fn places_of(ids: impl IntoIterator<Item = i64>) -> Vec<i64> {
    let mut places: Vec<i64> = ids.into_iter().map(place_of).collect();
    places.dedup();
    places
}
