//! Tokens.

use std::time::Duration;

use async_trait::async_trait;
use contactd_core::store::{Noted, StoreError, Tokens};
use contactd_core::{Lifetime, Quota, Rate, Scopes, Timestamp, Token, TokenHash, TokenUpdate, UpdatedToken};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::{SqliteStore, outbox};

const COLUMNS: &str = "hash, id, name, phone, email, created_at, expires_at, revoked_at, rate, burst, quota,
    last_used_at, (SELECT coalesce(sum(hits), 0) FROM usage WHERE usage.token = tokens.id), family, rotated_from, lifetime";

#[async_trait]
impl Tokens for SqliteStore {
    async fn create_token(
        &self,
        hash: &TokenHash,
        token: &Token,
        entry: Noted<'_>,
    ) -> Result<(), StoreError> {
        self.change_access(|transaction| {
            outbox::add(transaction, entry, &[])?;
            insert(transaction, hash, token)
        })
    }

    async fn list_tokens(&self) -> Result<Vec<(TokenHash, Token)>, StoreError> {
        self.with_main(list)
    }

    async fn revoke_token(
        &self,
        id: &str,
        at: Timestamp,
        entry: Noted<'_>,
    ) -> Result<Option<Token>, StoreError> {
        let revoke = "UPDATE tokens SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL";
        self.change_access(|transaction| {
            transaction.execute(revoke, params![id, at.millis()])?;
            let found = find(transaction, id)?;
            outbox::add(transaction, entry.filter(|_| found.is_some()), &[])?;
            Ok(found)
        })
    }

    async fn rotate_token(
        &self,
        old: &str,
        old_ends_at: Timestamp,
        hash: &TokenHash,
        token: &Token,
        entry: Noted<'_>,
    ) -> Result<bool, StoreError> {
        let end = "UPDATE tokens SET expires_at = min(coalesce(expires_at, ?2), ?2)
                   WHERE id = ?1 AND revoked_at IS NULL";
        self.change_access(|transaction| {
            let is_ended = transaction.execute(end, params![old, old_ends_at.millis()])? > 0;
            if is_ended {
                outbox::add(transaction, entry, &[])?;
                insert(transaction, hash, token)?;
            }
            Ok(is_ended)
        })
    }

    async fn update_token(
        &self,
        id: &str,
        update: &TokenUpdate,
        at: Timestamp,
        entry: Noted<'_>,
    ) -> Result<Option<UpdatedToken>, StoreError> {
        self.change_access(|transaction| {
            let found = find(transaction, id)?.filter(|token| token.is_live(at));
            let Some(before) = found else { return Ok(None) };
            outbox::add(transaction, entry, &[])?;
            let after = update.apply(&before, at);
            store(transaction, &after)?;
            let mut sharing = Vec::new();
            if let Some(quota) = update.quota {
                let others = list(transaction)?.into_iter().map(|(_, other)| other);
                for other in others.filter(|other| other.family == before.family && other.id != before.id) {
                    if other.is_live(at) {
                        store(transaction, &Token { quota: quota.0, ..other.clone() })?;
                        sharing.push(other.id);
                    }
                }
            }
            Ok(Some(UpdatedToken { before, after, sharing }))
        })
    }
}

/// Stores what can be changed about a token.
pub(crate) fn store(connection: &Connection, token: &Token) -> rusqlite::Result<()> {
    connection.execute(
        "UPDATE tokens SET phone = ?2, email = ?3, expires_at = ?4, lifetime = ?5, rate = ?6, burst = ?7, quota = ?8
         WHERE id = ?1",
        params![
            token.id,
            token.scopes.phone,
            token.scopes.email,
            token.expires_at.map(Timestamp::millis),
            millis(token.lifetime),
            token.rate.map(|rate| rate.to_string()),
            token.rate.map(|rate| rate.burst),
            token.quota.map(|quota| quota.to_string()),
        ],
    )?;
    Ok(())
}

/// A lifetime as it is stored: null for ever.
fn millis(lifetime: Lifetime) -> Option<i64> {
    match lifetime {
        Lifetime::For(length) => Some(i64::try_from(length.as_millis()).unwrap_or(i64::MAX)),
        Lifetime::Forever => None,
    }
}

fn insert(connection: &Connection, hash: &TokenHash, token: &Token) -> rusqlite::Result<()> {
    connection.execute(
        "INSERT INTO tokens (hash, id, name, phone, email, created_at, expires_at, revoked_at, rate, burst, quota, family,
             rotated_from, lifetime)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
        params![
            hash.as_bytes(),
            token.id,
            token.name,
            token.scopes.phone,
            token.scopes.email,
            token.created_at.millis(),
            token.expires_at.map(Timestamp::millis),
            token.revoked_at.map(Timestamp::millis),
            token.rate.map(|rate| rate.to_string()),
            token.rate.map(|rate| rate.burst),
            token.quota.map(|quota| quota.to_string()),
            token.family,
            token.rotated_from,
            millis(token.lifetime),
        ],
    )?;
    Ok(())
}

pub(crate) fn list(connection: &Connection) -> rusqlite::Result<Vec<(TokenHash, Token)>> {
    let mut statement =
        connection.prepare_cached(&format!("SELECT {COLUMNS} FROM tokens ORDER BY created_at, rowid"))?;
    let rows = statement.query_map((), token)?;
    rows.collect()
}

pub(crate) fn find(connection: &Connection, id: &str) -> rusqlite::Result<Option<Token>> {
    connection
        .query_row(&format!("SELECT {COLUMNS} FROM tokens WHERE id = ?1"), [id], token)
        .map(|(_, token)| token)
        .optional()
}

fn token(row: &Row<'_>) -> rusqlite::Result<(TokenHash, Token)> {
    let time = |column: usize| row.get::<_, Option<i64>>(column).map(|at| at.map(Timestamp::from_millis));
    let rate: Option<String> = row.get(8)?;
    let burst: Option<u32> = row.get(9)?;
    let quota: Option<String> = row.get(10)?;
    let lifetime: Option<i64> = row.get(15)?;
    let lifetime = lifetime.map(|millis| Duration::from_millis(u64::try_from(millis).unwrap_or(0)));
    let rate = rate.and_then(|rate| rate.parse::<Rate>().ok());
    let token = Token {
        id: row.get(1)?,
        name: row.get(2)?,
        scopes: Scopes { phone: row.get(3)?, email: row.get(4)? },
        created_at: Timestamp::from_millis(row.get(5)?),
        expires_at: time(6)?,
        revoked_at: time(7)?,
        rate: rate.map(|rate| Rate { burst: burst.unwrap_or(rate.burst), ..rate }),
        quota: quota.and_then(|quota| quota.parse::<Quota>().ok()),
        last_used_at: time(11)?,
        hits: row.get(12)?,
        family: row.get(13)?,
        rotated_from: row.get(14)?,
        lifetime: lifetime.map_or(Lifetime::Forever, Lifetime::For),
    };
    Ok((TokenHash::from_bytes(row.get(0)?), token))
}
