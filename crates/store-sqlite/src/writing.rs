//! Keeping what the details add up to.

use std::collections::HashMap;

use contactd_core::{Detail, Profile};
use rusqlite::{Connection, OptionalExtension};

use crate::numbers::{kind_number, label_number};
use crate::profile_rows::{ProfileRows, SourceNames, StoredDetail};

/// What writes add up to, until it is written too.
#[derive(Default)]
pub(crate) struct Writing {
    sources: HashMap<String, i64>,
    totals: HashMap<(i64, i64, i64), i64>,
    /// Profiles gained, or lost if negative.
    pub(crate) profiles: i64,
}

/// What was taken away of a profile.
pub(crate) struct TakenAway {
    pub(crate) details: u64,
    /// Whether nothing is left of the profile.
    pub(crate) was_last: bool,
}

impl Writing {
    /// Counts a detail more or less.
    pub(crate) fn count(&mut self, source: i64, detail: &Detail, by: i64) {
        let sort = (source, kind_number(detail.kind), label_number(detail.label));
        *self.totals.entry(sort).or_default() += by;
    }

    /// The number of a source, which is given one when it is first met.
    pub(crate) fn source(&mut self, connection: &Connection, name: &str) -> rusqlite::Result<i64> {
        if let Some(&id) = self.sources.get(name) {
            return Ok(id);
        }
        let known = connection
            .prepare_cached("SELECT id FROM sources WHERE name = ?1")?
            .query_row([name], |row| row.get(0))
            .optional()?;
        let id = match known {
            Some(id) => id,
            None => {
                connection.execute("INSERT INTO sources (name) VALUES (?1)", [name])?;
                connection.last_insert_rowid()
            }
        };
        self.sources.insert(name.to_owned(), id);
        Ok(id)
    }

    /// Takes away what an import brought in and is still held; says how much.
    pub(crate) fn withdraw_import(&mut self, connection: &Connection, import: i64) -> rusqlite::Result<u64> {
        let mut of_import = connection.prepare("SELECT DISTINCT profile FROM details WHERE import = ?1")?;
        let profiles: Vec<String> =
            of_import.query_map([import], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
        let mut names = SourceNames::default();
        let mut withdrawn = 0;
        for key in profiles {
            let profile = Profile::from_key(&key);
            withdrawn +=
                self.take_away(connection, &mut names, &profile, |stored| stored.import == import)?.details;
        }
        Ok(withdrawn)
    }

    /// Takes away the details of a profile that `is_gone` picks.
    pub(crate) fn take_away(
        &mut self,
        connection: &Connection,
        names: &mut SourceNames,
        profile: &Profile,
        is_gone: impl Fn(&StoredDetail) -> bool,
    ) -> rusqlite::Result<TakenAway> {
        let mut rows = ProfileRows::read(connection, names, profile)?;
        let gone: Vec<_> = rows.details.extract_if(.., |stored| is_gone(stored)).collect();
        for gone in &gone {
            self.count(gone.source, &gone.detail, -1);
        }
        rows.write(connection, profile, |kind| gone.iter().any(|gone| gone.detail.kind == kind))?;
        let was_last = !gone.is_empty() && rows.details.is_empty();
        self.profiles -= i64::from(was_last);
        Ok(TakenAway { details: gone.len() as u64, was_last })
    }

    /// Brings the totals up to date, in the same transaction.
    pub(crate) fn finish(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let mut add = connection.prepare_cached(
            "INSERT INTO totals VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT DO UPDATE SET count = count + excluded.count",
        )?;
        for ((source, kind, label), by) in self.totals.drain().filter(|(_, by)| *by != 0) {
            add.execute((source, kind, label, by))?;
        }
        connection
            .execute("UPDATE profile_total SET count = count + ?1", [std::mem::take(&mut self.profiles)])?;
        Ok(())
    }
}
