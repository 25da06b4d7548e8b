//! Details: listing, finding, removing.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

use async_trait::async_trait;
use contactd_core::store::place::kind_number;
use contactd_core::store::{
    DetailFilter, Details, Noted, ScanLimits, SourceRetention, Stored, SweepPlan, Swept, Totals, VisitDetails,
};
use contactd_core::{ContactValue, Detail, Kind, Profile, SlugParts, Timestamp};
use rusqlite::{Connection, Result, Transaction};

use crate::profile_rows::ProfileRows;
use crate::writing::Writing;
use crate::{SqliteStore, connection, former, outbox, profile_rows, retention, totals};

#[async_trait]
impl Details for SqliteStore {
    async fn list_details(&self, profile: &Profile) -> Stored<Vec<Detail>> {
        self.read_details(|details| {
            let rows = ProfileRows::read(details, profile)?;
            Ok(rows.details.into_iter().map(|stored| stored.detail).collect())
        })
    }

    async fn remove_details(&self, profile: &Profile, which: &DetailFilter, entry: Noted<'_>) -> Stored<u64> {
        self.change_details(|transaction, writing| {
            let taken = writing.take_away(transaction, profile, |stored| which.matches(&stored.detail))?;
            let mut kept = former::remove(transaction, profile, which)?;
            kept.retain(|kept| !taken.gone.iter().any(|gone| gone.detail.is_same(&kept.detail)));
            let removed = (taken.gone.len() + kept.len()) as u64;
            outbox::add(transaction, entry.filter(|_| removed > 0), &[("details", removed)])?;
            Ok(removed)
        })
    }

    async fn visit_all(&self, visit: VisitDetails<'_>) -> Stored<()> {
        connection::run_blocking(|| {
            profile_rows::visit_all(&connection::sorting_reader(&self.details_file())?, visit)
        })
    }

    async fn find_holders(&self, values: &[(Kind, ContactValue)]) -> Stored<Vec<(Profile, usize)>> {
        self.read_details(|details| find_holders(details, values))
    }

    async fn find_by_slug(&self, parts: &SlugParts, limits: ScanLimits) -> Stored<Vec<Profile>> {
        self.read_details(|details| find_by_slug(details, parts, limits))
    }

    async fn are_held(&self, profiles: &[Profile]) -> Stored<Vec<bool>> {
        self.read_details(|details| are_held(details, profiles))
    }

    async fn sweep(&self, plan: SweepPlan<'_>, entry: Noted<'_>) -> Stored<Swept> {
        connection::run_blocking(|| self.sweep_all(plan, entry))
    }

    async fn list_retention(&self, now: Timestamp) -> Stored<Vec<SourceRetention>> {
        self.read_details(|details| retention::list(details, now))
    }

    async fn totals(&self) -> Stored<Totals> {
        self.read_details(totals::read)
    }
}

impl SqliteStore {
    /// Reads details with a connection of its own.
    pub(crate) fn read_details<T>(&self, read: impl FnOnce(&Connection) -> Result<T>) -> Stored<T> {
        connection::run_blocking(|| read(&connection::reader(&self.details_file())?))
    }

    /// Changes details and totals in one transaction, on its own connection: while it waits for the write lock,
    /// nothing else in this process waits.
    pub(crate) fn change_details<T>(
        &self,
        change: impl FnOnce(&Transaction<'_>, &mut Writing) -> Result<T>,
    ) -> Stored<T> {
        use contactd_core::store::LocalRead;
        connection::run_blocking(|| {
            let mut writer = connection::impatient_writer(&self.details_file())?;
            let transaction = connection::write(&mut writer)?;
            let mut writing = Writing::default();
            let done = change(&transaction, &mut writing)?;
            writing.finish(&transaction)?;
            transaction.commit()?;
            self.renew_all();
            Ok(done)
        })
    }
}

fn find_holders(connection: &Connection, values: &[(Kind, ContactValue)]) -> Result<Vec<(Profile, usize)>> {
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

fn find_by_slug(connection: &Connection, parts: &SlugParts, limits: ScanLimits) -> Result<Vec<Profile>> {
    let mut found = BTreeSet::new();
    for table in ["details", "former"] {
        let mut statement = connection.prepare(&format!("SELECT profile FROM {table} LIMIT ?1"))?;
        let mut rows = statement.query([limits.details])?;
        let mut last = String::new();
        while let Some(row) = rows.next()? {
            // The details of a profile are beside each other.
            let key = row.get_ref(0)?.as_str()?;
            if key == last || !parts.are_in(key) {
                continue;
            }
            key.clone_into(&mut last);
            found.insert(last.clone());
            if found.len() >= limits.profiles {
                return Ok(found.iter().map(|key| Profile::from_key(key)).collect());
            }
        }
    }
    Ok(found.iter().map(|key| Profile::from_key(key)).collect())
}

fn are_held(connection: &Connection, profiles: &[Profile]) -> Result<Vec<bool>> {
    let is_held = |profile: &Profile| {
        let held = ProfileRows::read(connection, profile)?;
        Ok(!held.details.is_empty() || former::is_kept(connection, profile)?)
    };
    profiles.iter().map(is_held).collect()
}
