//! Tokens.

use contactd_core::store::{Noted, StoreFuture, Tokens};
use contactd_core::{Quota, Rate, Scopes, Timestamp, Token, TokenHash};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::{SqliteStore, connection, outbox};

const COLUMNS: &str = "hash, id, name, phone, email, created_at, expires_at, revoked_at, rate, burst, quota,
    last_used_at, (SELECT coalesce(sum(hits), 0) FROM usage WHERE usage.token = tokens.id)";

impl Tokens for SqliteStore {
    fn create_token(&self, hash: &TokenHash, token: &Token, entry: Noted<'_>) -> impl StoreFuture<()> {
        std::future::ready(self.change_access(|transaction| {
            outbox::add(transaction, entry, &[])?;
            insert(transaction, hash, token)
        }))
    }

    fn list_tokens(&self) -> impl StoreFuture<Vec<(TokenHash, Token)>> {
        std::future::ready(list(&self.main()).map_err(connection::error))
    }

    fn revoke_token(&self, id: &str, at: Timestamp, entry: Noted<'_>) -> impl StoreFuture<Option<Token>> {
        let revoke = "UPDATE tokens SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL";
        std::future::ready(self.change_access(|transaction| {
            transaction.execute(revoke, params![id, at.millis()])?;
            let found = find(transaction, id)?;
            outbox::add(transaction, entry.filter(|_| found.is_some()), &[])?;
            Ok(found)
        }))
    }

    fn rotate_token(
        &self,
        old: &str,
        old_ends_at: Timestamp,
        hash: &TokenHash,
        token: &Token,
        entry: Noted<'_>,
    ) -> impl StoreFuture<bool> {
        let end = "UPDATE tokens SET expires_at = min(coalesce(expires_at, ?2), ?2)
                   WHERE id = ?1 AND revoked_at IS NULL";
        std::future::ready(self.change_access(|transaction| {
            let is_ended = transaction.execute(end, params![old, old_ends_at.millis()])? > 0;
            if is_ended {
                outbox::add(transaction, entry, &[])?;
                insert(transaction, hash, token)?;
            }
            Ok(is_ended)
        }))
    }
}

fn insert(connection: &Connection, hash: &TokenHash, token: &Token) -> rusqlite::Result<()> {
    connection.execute(
        "INSERT INTO tokens (hash, id, name, phone, email, created_at, expires_at, revoked_at, rate, burst, quota)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
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

fn find(connection: &Connection, id: &str) -> rusqlite::Result<Option<Token>> {
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
    };
    Ok((TokenHash::from_bytes(row.get(0)?), token))
}
