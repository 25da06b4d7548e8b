//! Opt-outs and revocations of one data directory, to be applied to another made from an older backup.

use std::path::Path;

use contactd_core::store::{StoreError, TakenOver, Withdrawals};
use contactd_core::{SubjectDigest, Timestamp, Token};
use rusqlite::{Connection, params};

use crate::{SqliteStore, connection, tokens};

impl SqliteStore {
    /// Reads the opt-outs and tokens of a data directory, even if its details are damaged. Changes nothing there.
    pub fn read_withdrawals(dir: &Path) -> Result<Withdrawals, StoreError> {
        let main = connection::reader(&dir.join("contactd.db"))?;
        read(&main).map_err(connection::error)
    }
}

fn read(main: &Connection) -> rusqlite::Result<Withdrawals> {
    let mut suppressions = main.prepare("SELECT key, digest, suppressed_at FROM suppressions")?;
    let suppressions = suppressions.query_map((), |row| {
        let digest = SubjectDigest { key: row.get(0)?, bytes: row.get(1)? };
        Ok((digest, Timestamp::from_millis(row.get(2)?)))
    })?;
    Ok(Withdrawals {
        suppressions: suppressions.collect::<rusqlite::Result<_>>()?,
        tokens: tokens::list(main)?,
        disabled_users: ended(main, "users", "name", "disabled_at")?,
        revoked_admin_tokens: ended(main, "admin_tokens", "id", "revoked_at")?,
    })
}

/// The accounts that have ended, and since when.
fn ended(main: &Connection, table: &str, id: &str, at: &str) -> rusqlite::Result<Vec<(String, Timestamp)>> {
    main.prepare(&format!("SELECT {id}, {at} FROM {table} WHERE {at} IS NOT NULL"))?
        .query_map((), |row| Ok((row.get(0)?, Timestamp::from_millis(row.get(1)?))))?
        .collect()
}

pub(crate) fn take_over(
    main: &Connection,
    withdrawals: &Withdrawals,
    now: Timestamp,
) -> rusqlite::Result<TakenOver> {
    let mut taken = TakenOver::default();
    let mut suppress =
        main.prepare("INSERT OR IGNORE INTO suppressions (digest, key, suppressed_at) VALUES (?1, ?2, ?3)")?;
    for (subject, at) in &withdrawals.suppressions {
        taken.suppressions += suppress.execute(params![subject.bytes, subject.key, at.millis()])? as u64;
    }
    let mut revoke =
        main.prepare("UPDATE tokens SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL")?;
    let mut know = main.prepare(
        "INSERT OR IGNORE INTO tokens (id, hash, name, phone, email, created_at, revoked_at, family)
         VALUES (?1, ?2, ?3, FALSE, FALSE, ?4, ?5, ?1)",
    )?;
    for (hash, token) in &withdrawals.tokens {
        if let Some(at) = token.revoked_at {
            taken.revocations += revoke.execute((&token.id, at.millis()))? as u64;
        } else if let Some(known) = tokens::find(main, &token.id)?.filter(|known| known.revoked_at.is_none())
        {
            let restricted = Token {
                expires_at: [known.expires_at, token.expires_at].into_iter().flatten().min(),
                scopes: known.scopes.and(token.scopes),
                ..known.clone()
            };
            if restricted != known {
                tokens::store(main, &restricted)?;
                let counted =
                    if token.is_live(now) { &mut taken.restrictions } else { &mut taken.revocations };
                *counted += 1;
            }
        }
        know.execute((&token.id, hash.as_bytes(), &token.name, token.created_at.millis(), now.millis()))?;
    }
    let disable = "UPDATE users SET disabled_at = ?2 WHERE name = ?1 AND disabled_at IS NULL";
    let revoke = "UPDATE admin_tokens SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL";
    for (end, accounts) in
        [(disable, &withdrawals.disabled_users), (revoke, &withdrawals.revoked_admin_tokens)]
    {
        let mut end = main.prepare(end)?;
        for (id, at) in accounts {
            taken.accounts += end.execute((id, at.millis()))? as u64;
        }
    }
    Ok(taken)
}
