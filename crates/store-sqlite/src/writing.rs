//! Keeping the totals up to date with the details.

use std::collections::HashMap;

use contactd_core::{Detail, Profile};
use rusqlite::{Connection, OptionalExtension};

use crate::numbers::{kind_number, label_number};
use crate::profile_rows::{ProfileRows, SourceNames, StoredDetail};

/// Changes to the totals, collected until [`Writing::finish`] writes them.
#[derive(Default)]
pub(crate) struct Writing {
    sources: HashMap<String, i64>,
    totals: HashMap<(i64, i64, i64), i64>,
    /// Profiles gained, or lost if negative.
    pub(crate) profiles: i64,
}

/// What was removed from a profile.
pub(crate) struct TakenAway {
    pub(crate) gone: Vec<StoredDetail>,
    /// Whether the profile has no details left.
    pub(crate) was_last: bool,
}

impl Writing {
    /// Adds `by` to the count of details like this one.
    pub(crate) fn count(&mut self, source: i64, detail: &Detail, by: i64) {
        let sort = (source, kind_number(detail.kind), label_number(detail.label));
        *self.totals.entry(sort).or_default() += by;
    }

    /// The id of a source; a new source is added.
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

    /// Removes the details of a profile for which `is_gone` is true.
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
        Ok(TakenAway { gone, was_last })
    }

    /// Updates the totals; call it in the same transaction.
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
