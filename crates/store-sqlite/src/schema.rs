//! Migrations: numbered, forward only, never edited once landed.

use std::path::Path;

use contactd_core::store::StoreError;
use rusqlite::Connection;

use crate::connection;

pub(crate) const CONTACTD: &[&str] =
    &[include_str!("../migrations/contactd/001_tokens_suppressions_usage.sql")];

pub(crate) const DETAILS: &[&str] = &[include_str!("../migrations/details/001_details.sql")];

/// Opens a database for writing and brings it to the newest schema. Refuses one that is
/// newer.
pub(crate) fn open(file: &Path, migrations: &[&str]) -> Result<Connection, StoreError> {
    let mut connection = connection::writer(file)?;
    let known = u32::try_from(migrations.len()).unwrap_or(u32::MAX);
    if version(&connection)? == known {
        return Ok(connection);
    }
    let transaction = connection::write(&mut connection)?;
    // Another process may have migrated while this one waited.
    let found = version(&transaction)?;
    if found > known {
        return Err(StoreError::SchemaTooNew { found, known });
    }
    for migration in migrations.iter().skip(found as usize) {
        transaction.execute_batch(migration).map_err(connection::error)?;
    }
    transaction.pragma_update(None, "user_version", known).map_err(connection::error)?;
    transaction.commit().map_err(connection::error)?;
    Ok(connection)
}

fn version(connection: &Connection) -> Result<u32, StoreError> {
    connection.query_row("PRAGMA user_version", (), |row| row.get(0)).map_err(connection::error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sha2::{Digest, Sha256};

    fn fingerprint(migration: &str) -> String {
        Sha256::digest(migration)[..6].iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn landed_migrations_are_never_edited() {
        let contactd: Vec<_> = CONTACTD.iter().copied().map(fingerprint).collect();
        let details: Vec<_> = DETAILS.iter().copied().map(fingerprint).collect();
        assert_eq!(contactd, ["3fdff0a8a751"]);
        assert_eq!(details, ["09ea08fcbafd"]);
    }

    #[test]
    fn a_newer_schema_is_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("contactd.db");
        let newer: Vec<&str> = CONTACTD.iter().copied().chain(["CREATE TABLE later (id INTEGER)"]).collect();
        drop(open(&file, &newer).expect("opens"));
        let refused = open(&file, CONTACTD).expect_err("is newer");
        assert!(matches!(refused, StoreError::SchemaTooNew { found: 2, known: 1 }), "{refused}");
    }
}
