//! Details: listing, finding, removing.

use std::borrow::Cow;
use std::collections::HashMap;

use contactd_core::store::place::kind_number;
use contactd_core::store::{
    DetailFilter, Details, Noted, SourceRetention, StoreError, StoreFuture, SweepPlan, Swept, Totals,
};
use contactd_core::{ContactValue, Detail, Kind, Profile, Timestamp};
use rusqlite::{Connection, Transaction};

use crate::profile_rows::{ProfileRows, SourceNames};
use crate::writing::Writing;
use crate::{SqliteStore, connection, former, outbox, profile_rows, retention, totals};

impl Details for SqliteStore {
    fn list_details(&self, profile: &Profile) -> impl StoreFuture<Vec<Detail>> {
        let rows = connection::reader(&self.details_file()).and_then(|reader| {
            ProfileRows::read(&reader, &mut SourceNames::default(), profile).map_err(connection::error)
        });
        std::future::ready(rows.map(|rows| rows.details.into_iter().map(|stored| stored.detail).collect()))
    }

    fn remove_details(
        &self,
        profile: &Profile,
        which: &DetailFilter,
        entry: Noted<'_>,
    ) -> impl StoreFuture<u64> {
        let removed = self.change_details(|transaction, writing| {
            let names = &mut SourceNames::default();
            let taken =
                writing.take_away(transaction, names, profile, |stored| which.matches(&stored.detail))?;
            let mut kept = former::remove(transaction, profile, which)?;
            kept.retain(|kept| !taken.gone.iter().any(|gone| gone.detail.is_same(&kept.detail)));
            let removed = (taken.gone.len() + kept.len()) as u64;
            outbox::add(transaction, entry.filter(|_| removed > 0), &[("details", removed)])?;
            Ok(removed)
        });
        std::future::ready(removed)
    }

    fn visit_all(&self, visit: impl FnMut(&Profile, Vec<Detail>) -> bool + Send) -> impl StoreFuture<()> {
        let visited = connection::sorting_reader(&self.details_file())
            .and_then(|reader| profile_rows::visit_all(&reader, visit).map_err(connection::error));
        std::future::ready(visited)
    }

    fn find_holders(&self, values: &[(Kind, ContactValue)]) -> impl StoreFuture<Vec<(Profile, usize)>> {
        let found = connection::reader(&self.details_file())
            .and_then(|reader| find_holders(&reader, values).map_err(connection::error));
        std::future::ready(found)
    }

    fn are_held(&self, profiles: &[Profile]) -> impl StoreFuture<Vec<bool>> {
        let are_held = connection::reader(&self.details_file())
            .and_then(|reader| are_held(&reader, profiles).map_err(connection::error));
        std::future::ready(are_held)
    }

    fn sweep(&self, plan: SweepPlan<'_>, entry: Noted<'_>) -> impl StoreFuture<Swept> {
        std::future::ready(self.sweep_all(plan, entry))
    }

    fn list_retention(&self, now: Timestamp) -> impl StoreFuture<Vec<SourceRetention>> {
        let list = connection::reader(&self.details_file())
            .and_then(|reader| retention::list(&reader, now).map_err(connection::error));
        std::future::ready(list)
    }

    fn totals(&self) -> impl StoreFuture<Totals> {
        let totals = connection::reader(&self.details_file())
            .and_then(|reader| totals::read(&reader).map_err(connection::error));
        std::future::ready(totals)
    }
}

impl SqliteStore {
    /// Changes details and totals in one transaction, on its own connection: while it waits for the write lock,
    /// nothing else in this process waits.
    pub(crate) fn change_details<T>(
        &self,
        change: impl FnOnce(&Transaction<'_>, &mut Writing) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        use contactd_core::store::LocalRead;
        let mut writer = connection::impatient_writer(&self.details_file())?;
        let transaction = connection::write(&mut writer)?;
        let mut writing = Writing::default();
        let done = change(&transaction, &mut writing).map_err(connection::error)?;
        writing.finish(&transaction).map_err(connection::error)?;
        transaction.commit().map_err(connection::error)?;
        self.renew_all();
        Ok(done)
    }
}

fn find_holders(
    connection: &Connection,
    values: &[(Kind, ContactValue)],
) -> rusqlite::Result<Vec<(Profile, usize)>> {
    let mut found = Vec::new();
    for kind in Kind::ALL {
        let mut asked: HashMap<Cow<'_, str>, Vec<usize>> = HashMap::new();
        for (at, (_, value)) in values.iter().enumerate().filter(|(_, (of, _))| *of == kind) {
            asked.entry(ContactValue::comparable(kind, value.expose())).or_default().push(at);
        }
        if asked.is_empty() {
            continue;
        }
        let mut statement = connection.prepare(
            "SELECT profile, value FROM details WHERE kind = ?1
             UNION ALL SELECT profile, value FROM former WHERE kind = ?1",
        )?;
        let mut rows = statement.query([kind_number(kind)])?;
        while let Some(row) = rows.next()? {
            let held = ContactValue::comparable(kind, row.get_ref(1)?.as_str()?);
            for &at in asked.get(&held).into_iter().flatten() {
                found.push((Profile::from_key(row.get_ref(0)?.as_str()?), at));
            }
        }
    }
    found.sort_by(|(a, at), (b, other)| (a.key(), at).cmp(&(b.key(), other)));
    found.dedup();
    Ok(found)
}

fn are_held(connection: &Connection, profiles: &[Profile]) -> rusqlite::Result<Vec<bool>> {
    let mut names = SourceNames::default();
    let mut is_held = |profile: &Profile| {
        let held = ProfileRows::read(connection, &mut names, profile)?;
        Ok(!held.details.is_empty() || former::is_kept(connection, profile)?)
    };
    profiles.iter().map(&mut is_held).collect()
}
