//! The tables of each file. A step is never edited once released: a change to the tables is a new step after it.

use std::path::Path;

use contactd_core::store::StoreError;
use rusqlite::{Connection, Result};

use crate::connection;

pub(crate) const CONTACTD: &[&str] =
    &[include_str!("../schema/contactd.sql"), include_str!("../schema/held.sql")];
pub(crate) const DETAILS: &[&str] =
    &[include_str!("../schema/details.sql"), include_str!("../schema/lookup.sql")];
pub(crate) const AUDIT: &[&str] = &[
    include_str!("../schema/audit.sql"),
    include_str!("../schema/audit-batch.sql"),
    include_str!("../schema/audit-via.sql"),
];

/// Opens a database for writing, and takes the `steps` to the newest schema that it has not taken yet. Refuses a schema that
/// is newer than that.
pub(crate) fn open(file: &Path, steps: &[&str]) -> Result<Connection> {
    let mut connection = connection::writer(file)?;
    let known = u32::try_from(steps.len()).unwrap_or(u32::MAX);
    if version(&connection)? == known {
        return Ok(connection);
    }
    let transaction = connection::write(&mut connection)?;
    // Another process may have taken them while this one waited.
    let found = version(&transaction)?;
    if found > known {
        return Err(connection::refused(StoreError::SchemaTooNew { found, known }));
    }
    for step in steps.iter().skip(found as usize) {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "user_version", known)?;
    transaction.commit()?;
    Ok(connection)
}

/// Whether a database is there and has tables.
pub(crate) fn is_made(file: &Path) -> Result<bool> {
    Ok(file.exists() && version(&connection::reader(file)?)? > 0)
}

fn version(connection: &Connection) -> Result<u32> {
    connection.query_row("PRAGMA user_version", (), |row| row.get(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    // A released step that is edited would leave older stores with other tables than new ones.
    #[test]
    fn the_store_of_every_released_version_gets_the_tables_of_a_new_one() {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
        let tables = |dir: &Path| {
            let schemas = [("contactd.db", CONTACTD), ("details.db", DETAILS), ("audit-index.db", AUDIT)];
            schemas.map(|(name, steps)| {
                let opened = open(&dir.join(name), steps).expect("opens");
                let mut list = opened
                    .prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name")
                    .expect("SQL");
                let found = list.query_map((), |row| row.get(0)).expect("reads");
                found.collect::<rusqlite::Result<Vec<String>>>().expect("reads")
            })
        };
        let new = tempfile::tempdir().expect("a directory");
        for entry in std::fs::read_dir(fixtures).expect("lists") {
            let data = entry.expect("an entry").path().join("data");
            if !data.is_dir() {
                continue;
            }
            let old = tempfile::tempdir().expect("a directory");
            for name in ["contactd.db", "details.db", "audit-index.db"] {
                std::fs::copy(data.join(name), old.path().join(name)).expect("copies");
            }
            assert_eq!(tables(old.path()), tables(new.path()), "{}", data.display());
        }
    }

    #[test]
    fn a_newer_schema_is_refused_and_an_older_one_takes_the_steps_it_lacks() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("contactd.db");
        drop(open(&file, CONTACTD).expect("opens"));
        let newer: Vec<&str> = CONTACTD.iter().copied().chain(["CREATE TABLE later (id INTEGER)"]).collect();
        let later = open(&file, &newer).expect("opens");
        later.execute_batch("SELECT later.id, number FROM later, changes").expect("both steps were taken");
        drop(later);
        let refused = connection::error(open(&file, CONTACTD).expect_err("is newer"));
        assert!(matches!(refused, StoreError::SchemaTooNew { found: 3, known: 2 }), "{refused}");
    }
}
