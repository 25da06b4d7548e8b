//! Writing details, and keeping what they add up to.

use std::collections::HashMap;

use contactd_core::{Detail, Profile, Timestamp};
use rusqlite::{Connection, OptionalExtension, params};

use crate::details::{kind_number, label_number};

/// Stands for an absent `observed_at`, which counts as oldest.
pub(crate) const NEVER_OBSERVED: i64 = -(1 << 39);

/// Writes to the details and what they add up to.
#[derive(Default)]
pub(crate) struct Writing {
    sources: HashMap<String, i64>,
    totals: HashMap<(i64, i64, i64), i64>,
    /// Profiles gained, or lost if negative.
    pub(crate) profiles: i64,
}

impl Writing {
    pub(crate) fn insert(
        &mut self,
        connection: &Connection,
        profile: &Profile,
        detail: &Detail,
        import: i64,
    ) -> rusqlite::Result<()> {
        let source = self.source(connection, &detail.source)?;
        connection
            .prepare_cached("INSERT INTO details VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)")?
            .execute(params![
                profile.key(),
                kind_number(detail.kind),
                label_number(detail.label),
                detail.confidence,
                observed(detail),
                detail.value.expose(),
                source,
                detail.expires_at.map(Timestamp::seconds),
                detail.basis,
                import
            ])?;
        self.count(source, detail, 1);
        Ok(())
    }

    pub(crate) fn delete(
        &mut self,
        connection: &Connection,
        profile: &Profile,
        detail: &Detail,
    ) -> rusqlite::Result<()> {
        let source = self.source(connection, &detail.source)?;
        connection
            .prepare_cached(
                "DELETE FROM details WHERE profile = ?1 AND kind = ?2 AND label = ?3 AND confidence = ?4
                 AND observed_at = ?5 AND value = ?6 AND source = ?7",
            )?
            .execute(params![
                profile.key(),
                kind_number(detail.kind),
                label_number(detail.label),
                detail.confidence,
                observed(detail),
                detail.value.expose(),
                source
            ])?;
        self.count(source, detail, -1);
        Ok(())
    }

    fn count(&mut self, source: i64, detail: &Detail, by: i64) {
        let sort = (source, kind_number(detail.kind), label_number(detail.label));
        *self.totals.entry(sort).or_default() += by;
    }

    /// The number of a source, which is given one when it is first met.
    fn source(&mut self, connection: &Connection, name: &str) -> rusqlite::Result<i64> {
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

fn observed(detail: &Detail) -> i64 {
    detail.observed_at.map_or(NEVER_OBSERVED, Timestamp::seconds)
}
