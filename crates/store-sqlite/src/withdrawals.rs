//! What was taken back in a data directory, for another that is made from an older backup.

use std::path::Path;

use contactd_core::store::StoreError;
use contactd_core::{SubjectDigest, Timestamp};
use rusqlite::{Connection, params};

use crate::{SqliteStore, connection};

/// Opt-outs, and tokens that were revoked, each with its time in milliseconds; and the other tokens.
#[derive(Debug, Default)]
pub struct Withdrawals {
    suppressions: Vec<(SubjectDigest, i64)>,
    revoked_tokens: Vec<(String, i64)>,
    tokens: Vec<KnownToken>,
}

/// A token that the journal may speak of.
#[derive(Debug)]
struct KnownToken {
    id: String,
    hash: Vec<u8>,
    name: String,
    created_at: i64,
}

/// How much of it was not known before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TakenOver {
    /// Opt-outs.
    pub suppressions: u64,
    /// Tokens that were accepted and are not any more.
    pub revocations: u64,
}

impl Withdrawals {
    /// Reads those of a data directory whose details need not be whole. Changes nothing there.
    pub fn read(dir: &Path) -> Result<Self, StoreError> {
        let main = connection::reader(&dir.join("contactd.db"))?;
        read(&main).map_err(connection::error)
    }
}

fn read(main: &Connection) -> rusqlite::Result<Withdrawals> {
    let mut suppressions = main.prepare("SELECT key, digest, suppressed_at FROM suppressions")?;
    let suppressions = suppressions
        .query_map((), |row| Ok((SubjectDigest { key: row.get(0)?, bytes: row.get(1)? }, row.get(2)?)))?;
    let mut revoked = main.prepare("SELECT id, revoked_at FROM tokens WHERE revoked_at IS NOT NULL")?;
    let revoked = revoked.query_map((), |row| Ok((row.get(0)?, row.get(1)?)))?;
    let mut tokens = main.prepare("SELECT id, hash, name, created_at FROM tokens")?;
    let tokens = tokens.query_map((), |row| {
        Ok(KnownToken { id: row.get(0)?, hash: row.get(1)?, name: row.get(2)?, created_at: row.get(3)? })
    })?;
    Ok(Withdrawals {
        suppressions: suppressions.collect::<rusqlite::Result<_>>()?,
        revoked_tokens: revoked.collect::<rusqlite::Result<_>>()?,
        tokens: tokens.collect::<rusqlite::Result<_>>()?,
    })
}

impl SqliteStore {
    /// Takes back here what was taken back there, with the time at which that was. Tokens that are not known here are as if
    /// they had been revoked: for their names, of which the journal has only the ids.
    pub fn take_over(&self, withdrawals: &Withdrawals, at: Timestamp) -> Result<TakenOver, StoreError> {
        let mut main = self.main();
        let transaction = connection::write(&mut main)?;
        let taken = take_over(&transaction, withdrawals, at).map_err(connection::error)?;
        transaction.commit().map_err(connection::error)?;
        Ok(taken)
    }
}

fn take_over(main: &Connection, withdrawals: &Withdrawals, now: Timestamp) -> rusqlite::Result<TakenOver> {
    let (mut suppressions, mut revocations) = (0, 0);
    let mut suppress =
        main.prepare("INSERT OR IGNORE INTO suppressions (digest, key, suppressed_at) VALUES (?1, ?2, ?3)")?;
    for (subject, at) in &withdrawals.suppressions {
        suppressions += suppress.execute(params![subject.bytes, subject.key, at])? as u64;
    }
    let mut revoke =
        main.prepare("UPDATE tokens SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL")?;
    for (token, at) in &withdrawals.revoked_tokens {
        revocations += revoke.execute((token, at))? as u64;
    }
    let mut know = main.prepare(
        "INSERT OR IGNORE INTO tokens (id, hash, name, phone, email, created_at, revoked_at)
         VALUES (?1, ?2, ?3, FALSE, FALSE, ?4, ?5)",
    )?;
    for KnownToken { id, hash, name, created_at } in &withdrawals.tokens {
        know.execute((id, hash, name, created_at, now.millis()))?;
    }
    Ok(TakenOver { suppressions, revocations })
}
