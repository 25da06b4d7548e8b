//! Tokens and suppressions of a copy.

use contactd_core::store::StoreError;
use contactd_core::store::copying::{AccessChanges, CopiedSuppression, CopiedToken};
use rusqlite::{Connection, params};

use crate::SqliteStore;

impl SqliteStore {
    /// Applies changes of tokens and suppressions in one transaction. If `is_whole`, they are all there are, and whatever
    /// else is held goes.
    pub fn apply_access(&self, changes: &AccessChanges, is_whole: bool) -> Result<(), StoreError> {
        self.change_access(|transaction| {
            if is_whole {
                forget_others(transaction, changes)?;
            }
            put_tokens(transaction, &changes.tokens)?;
            put_suppressions(transaction, &changes.suppressions)?;
            transaction
                .execute("UPDATE copy SET number = ?1, id = ?2", params![changes.at.number, changes.at.id])?;
            Ok(())
        })
    }
}

/// Removes what is not among these. Tokens are kept where possible, because their order is that of their rows.
fn forget_others(connection: &Connection, changes: &AccessChanges) -> rusqlite::Result<()> {
    connection.execute("DELETE FROM suppressions", ())?;
    let held = connection
        .prepare("SELECT id FROM tokens")?
        .query_map((), |row| row.get(0))?
        .collect::<rusqlite::Result<Vec<String>>>()?;
    let mut forget = connection.prepare("DELETE FROM tokens WHERE id = ?1")?;
    let known: std::collections::HashSet<&str> =
        changes.tokens.iter().map(|token| token.id.as_str()).collect();
    for id in held.iter().filter(|id| !known.contains(id.as_str())) {
        forget.execute([id])?;
    }
    Ok(())
}

fn put_tokens(connection: &Connection, tokens: &[CopiedToken]) -> rusqlite::Result<()> {
    let mut put = connection.prepare_cached(
        "INSERT INTO tokens (id, hash, name, phone, email, created_at, expires_at, revoked_at, rate, burst, quota,
             last_used_at, family, rotated_from, lifetime)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
         ON CONFLICT (id) DO UPDATE SET hash = excluded.hash, name = excluded.name, phone = excluded.phone,
             email = excluded.email, created_at = excluded.created_at, expires_at = excluded.expires_at,
             revoked_at = excluded.revoked_at, rate = excluded.rate, burst = excluded.burst, quota = excluded.quota,
             last_used_at = nullif(max(coalesce(last_used_at, 0), coalesce(excluded.last_used_at, 0)), 0),
             family = excluded.family, rotated_from = excluded.rotated_from, lifetime = excluded.lifetime",
    )?;
    for token in tokens {
        put.execute(params![
            token.id,
            token.hash,
            token.name,
            token.phone,
            token.email,
            token.created_at,
            token.expires_at,
            token.revoked_at,
            token.rate,
            token.burst,
            token.quota,
            token.last_used_at,
            token.family,
            token.rotated_from,
            token.lifetime
        ])?;
    }
    Ok(())
}

fn put_suppressions(connection: &Connection, suppressions: &[CopiedSuppression]) -> rusqlite::Result<()> {
    let mut remove = connection.prepare_cached("DELETE FROM suppressions WHERE digest = ?1 AND key = ?2")?;
    let mut put = connection.prepare_cached("INSERT OR REPLACE INTO suppressions VALUES (?1, ?2, ?3)")?;
    for suppression in suppressions {
        let CopiedSuppression { digest, key, suppressed_at, is_removed } = suppression;
        if *is_removed {
            remove.execute(params![digest, key])?;
        } else {
            put.execute(params![digest, key, suppressed_at])?;
        }
    }
    Ok(())
}

pub(super) fn tokens(connection: &Connection) -> rusqlite::Result<Vec<CopiedToken>> {
    let mut read = connection.prepare(
        "SELECT id, hash, name, phone, email, created_at, expires_at, revoked_at, rate, burst, quota, last_used_at,
             family, rotated_from, lifetime
         FROM tokens",
    )?;
    let rows = read.query_map((), |row| {
        Ok(CopiedToken {
            id: row.get(0)?,
            hash: row.get(1)?,
            name: row.get(2)?,
            phone: row.get(3)?,
            email: row.get(4)?,
            created_at: row.get(5)?,
            expires_at: row.get(6)?,
            revoked_at: row.get(7)?,
            rate: row.get(8)?,
            burst: row.get(9)?,
            quota: row.get(10)?,
            last_used_at: row.get(11)?,
            family: row.get(12)?,
            rotated_from: row.get(13)?,
            lifetime: row.get(14)?,
        })
    })?;
    rows.collect()
}

pub(super) fn suppressions(connection: &Connection) -> rusqlite::Result<Vec<CopiedSuppression>> {
    let mut read = connection.prepare("SELECT digest, key, suppressed_at FROM suppressions")?;
    let rows = read.query_map((), |row| {
        Ok(CopiedSuppression {
            digest: row.get(0)?,
            key: row.get(1)?,
            suppressed_at: row.get(2)?,
            is_removed: false,
        })
    })?;
    rows.collect()
}
