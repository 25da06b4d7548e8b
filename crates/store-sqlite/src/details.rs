//! Details: listing, finding, removing.

use contactd_core::store::{Aged, DetailFilter, Details, Noted, StoreError, StoreFuture, Swept, Totals};
use contactd_core::{ContactValue, Detail, Kind, Profile, Timestamp};
use rusqlite::{Connection, Transaction};

use crate::numbers::kind_number;
use crate::profile_rows::{ProfileRows, SourceNames};
use crate::writing::Writing;
use crate::{SqliteStore, connection, outbox, profile_rows, totals};

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
            outbox::add(transaction, entry.filter(|_| taken.details > 0), &[("details", taken.details)])?;
            Ok(taken.details)
        });
        std::future::ready(removed)
    }

    fn visit_all(&self, visit: impl FnMut(&Profile, Vec<Detail>) -> bool + Send) -> impl StoreFuture<()> {
        let visited = connection::sorting_reader(&self.details_file())
            .and_then(|reader| profile_rows::visit_all(&reader, visit).map_err(connection::error));
        std::future::ready(visited)
    }

    fn find_profiles(&self, kind: Kind, value: &ContactValue) -> impl StoreFuture<Vec<Profile>> {
        let found = connection::reader(&self.details_file())
            .and_then(|reader| find_profiles(&reader, kind, value).map_err(connection::error));
        std::future::ready(found)
    }

    fn sweep(&self, now: Timestamp, aged: Aged<'_>, entry: Noted<'_>) -> impl StoreFuture<Swept> {
        std::future::ready(self.sweep_all(now, aged, entry))
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

fn find_profiles(
    connection: &Connection,
    kind: Kind,
    value: &ContactValue,
) -> rusqlite::Result<Vec<Profile>> {
    let mut statement = connection.prepare("SELECT profile, value FROM details WHERE kind = ?1")?;
    let mut rows = statement.query([kind_number(kind)])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        if value.compares_to(kind, row.get_ref(1)?.as_str()?) {
            found.push(Profile::from_key(row.get_ref(0)?.as_str()?));
        }
    }
    found.sort_by(|a, b| a.key().cmp(b.key()));
    found.dedup();
    Ok(found)
}
