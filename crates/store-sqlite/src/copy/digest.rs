//! A digest of everything in a copy, to compare it with the database.

use std::collections::HashMap;

use contactd_core::store::copying::{CopiedDetail, CopyDigest, DetailsDigest, access_digest};
use contactd_core::store::{EntityTable, Stored};
use rusqlite::{Connection, Result};

use super::access;
use crate::{SqliteStore, connection, entity_rows};

impl SqliteStore {
    /// Reads everything and computes a digest of it. Details, and tokens with suppressions, are each read in one snapshot
    /// with their number.
    pub fn digest(&self) -> Stored<CopyDigest> {
        connection::stored(|| {
            let mut main = connection::reader(&self.main_file())?;
            let mut details = connection::reader(&self.details_file())?;
            let main = main.transaction()?;
            let mut tokens = entity_rows::list(&main, EntityTable::Tokens)?;
            let mut suppressions = access::suppressions(&main)?;
            let access_number = number(&main)?;
            let details = details.transaction()?;
            let details_number = number(&details)?;
            let mut digest = DetailsDigest::default();
            add_details(&details, &mut digest)?;
            let (profiles, details, details_digest) = digest.finish();
            Ok(CopyDigest {
                details_number,
                access_number,
                profiles,
                details,
                tokens: tokens.len() as u64,
                suppressions: suppressions.len() as u64,
                details_digest,
                access_digest: access_digest(&mut tokens, &mut suppressions),
            })
        })
    }
}

fn number(connection: &Connection) -> Result<i64> {
    connection.query_row("SELECT coalesce(max(number), 0) FROM copy", (), |row| row.get(0))
}

fn add_details(connection: &Connection, digest: &mut DetailsDigest) -> Result<()> {
    let names = connection
        .prepare("SELECT id, name FROM sources")?
        .query_map((), |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<HashMap<i64, String>>>()?;
    let mut read = connection.prepare(
        "SELECT id, profile, kind, label, confidence, observed_at, value, source, expires_at, basis, import, said_by
         FROM details ORDER BY id",
    )?;
    let mut rows = read.query(())?;
    while let Some(row) = rows.next()? {
        let detail = CopiedDetail {
            id: row.get(0)?,
            profile: row.get(1)?,
            kind: row.get(2)?,
            label: row.get(3)?,
            confidence: row.get(4)?,
            observed_at: row.get(5)?,
            value: row.get(6)?,
            source: row.get(7)?,
            expires_at: row.get(8)?,
            basis: row.get(9)?,
            import: row.get(10)?,
            said_by: row.get(11)?,
        };
        digest.add(&detail, names.get(&detail.source).map_or("", String::as_str));
    }
    Ok(())
}
