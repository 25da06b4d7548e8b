//! Tokens.

use std::time::Duration;

use async_trait::async_trait;
use contactd_core::store::{Noted, StoreError, Tokens};
use contactd_core::{Lifetime, Quota, Rate, Scopes, Timestamp, Token, TokenHash, TokenUpdate, UpdatedToken};
use tokio_postgres::Row;

use crate::database::{Counter, Work};
use crate::failure::Failure;
use crate::{PostgresStore, outbox};

const COLUMNS: &str = "hash, id, name, phone, email, created_at, expires_at, revoked_at, rate, burst, quota, last_used_at,
    (SELECT coalesce(sum(hits), 0)::bigint FROM usage WHERE usage.token = tokens.id), family, rotated_from, lifetime";

#[async_trait]
impl Tokens for PostgresStore {
    async fn create_token(
        &self,
        hash: &TokenHash,
        token: &Token,
        entry: Noted<'_>,
    ) -> Result<(), StoreError> {
        self.database
            .change(Counter::Access, move |work| async move {
                outbox::add(&work, entry, &[]).await?;
                insert(&work, hash, token).await
            })
            .await
    }

    async fn list_tokens(&self) -> Result<Vec<(TokenHash, Token)>, StoreError> {
        self.database.read(|work| async move { list(&work).await }).await
    }

    async fn revoke_token(
        &self,
        id: &str,
        at: Timestamp,
        entry: Noted<'_>,
    ) -> Result<Option<Token>, StoreError> {
        self.database
            .change(Counter::Access, move |work| async move {
                let revoke =
                    "UPDATE tokens SET revoked_at = $2, number = $3 WHERE id = $1 AND revoked_at IS NULL";
                work.execute(revoke, &[&id, &at.millis(), &work.number]).await?;
                let found = find(&work, id).await?;
                outbox::add(&work, entry.filter(|_| found.is_some()), &[]).await?;
                Ok(found)
            })
            .await
    }

    async fn rotate_token(
        &self,
        old: &str,
        old_ends_at: Timestamp,
        hash: &TokenHash,
        token: &Token,
        entry: Noted<'_>,
    ) -> Result<bool, StoreError> {
        self.database
            .change(Counter::Access, move |work| async move {
                // Nulls do not count for the least.
                let end = "UPDATE tokens SET expires_at = least(expires_at, $2), number = $3
                       WHERE id = $1 AND revoked_at IS NULL";
                let is_ended = work.execute(end, &[&old, &old_ends_at.millis(), &work.number]).await? > 0;
                if is_ended {
                    outbox::add(&work, entry, &[]).await?;
                    insert(&work, hash, token).await?;
                }
                Ok(is_ended)
            })
            .await
    }

    async fn update_token(
        &self,
        id: &str,
        update: &TokenUpdate,
        at: Timestamp,
        entry: Noted<'_>,
    ) -> Result<Option<UpdatedToken>, StoreError> {
        self.database
            .change(Counter::Access, move |work| async move {
                let found = find(&work, id).await?.filter(|token| token.is_live(at));
                let Some(before) = found else { return Ok(None) };
                outbox::add(&work, entry, &[]).await?;
                let after = update.apply(&before, at);
                store(&work, &after).await?;
                let mut sharing = Vec::new();
                if let Some(quota) = update.quota {
                    for other in list_family(&work, &before.family).await? {
                        if other.id != before.id && other.is_live(at) {
                            store(&work, &Token { quota: quota.0, ..other.clone() }).await?;
                            sharing.push(other.id);
                        }
                    }
                }
                Ok(Some(UpdatedToken { before, after, sharing }))
            })
            .await
    }
}

/// Stores what can be changed about a token.
pub(crate) async fn store(work: &Work, token: &Token) -> Result<(), Failure> {
    let update =
        "UPDATE tokens SET phone = $2, email = $3, expires_at = $4, lifetime = $5, rate = $6, burst = $7,
                      quota = $8, number = $9
                  WHERE id = $1";
    work.execute(
        update,
        &[
            &token.id,
            &token.scopes.phone,
            &token.scopes.email,
            &token.expires_at.map(Timestamp::millis),
            &millis(token.lifetime),
            &token.rate.map(|rate| rate.to_string()),
            &token.rate.map(|rate| i64::from(rate.burst)),
            &token.quota.map(|quota| quota.to_string()),
            &work.number,
        ],
    )
    .await?;
    Ok(())
}

/// A lifetime as it is stored: null for ever.
fn millis(lifetime: Lifetime) -> Option<i64> {
    match lifetime {
        Lifetime::For(length) => Some(i64::try_from(length.as_millis()).unwrap_or(i64::MAX)),
        Lifetime::Forever => None,
    }
}

async fn insert(work: &Work, hash: &TokenHash, token: &Token) -> Result<(), Failure> {
    let insert = "INSERT INTO tokens (hash, id, name, phone, email, created_at, expires_at, revoked_at, rate, burst, quota,
                      family, rotated_from, lifetime, number)
                  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)";
    work.execute(
        insert,
        &[
            &&hash.as_bytes()[..],
            &token.id,
            &token.name,
            &token.scopes.phone,
            &token.scopes.email,
            &token.created_at.millis(),
            &token.expires_at.map(Timestamp::millis),
            &token.revoked_at.map(Timestamp::millis),
            &token.rate.map(|rate| rate.to_string()),
            &token.rate.map(|rate| i64::from(rate.burst)),
            &token.quota.map(|quota| quota.to_string()),
            &token.family,
            &token.rotated_from,
            &millis(token.lifetime),
            &work.number,
        ],
    )
    .await?;
    Ok(())
}

/// All tokens, oldest first.
pub(crate) async fn list(work: &Work) -> Result<Vec<(TokenHash, Token)>, Failure> {
    let list = format!("SELECT {COLUMNS} FROM tokens ORDER BY created_at, place");
    work.query(&list, &[]).await?.iter().map(token).collect()
}

async fn list_family(work: &Work, family: &str) -> Result<Vec<Token>, Failure> {
    let list = format!("SELECT {COLUMNS} FROM tokens WHERE family = $1 ORDER BY created_at, place");
    work.query(&list, &[&family]).await?.iter().map(|row| token(row).map(|(_, token)| token)).collect()
}

async fn find(work: &Work, id: &str) -> Result<Option<Token>, Failure> {
    let find = format!("SELECT {COLUMNS} FROM tokens WHERE id = $1");
    let found = work.query_opt(&find, &[&id]).await?;
    found.as_ref().map(token).transpose().map(|found| found.map(|(_, token)| token))
}

fn token(row: &Row) -> Result<(TokenHash, Token), Failure> {
    let time = |column: usize| row.get::<_, Option<i64>>(column).map(Timestamp::from_millis);
    let hash = row.get::<_, &[u8]>(0).try_into().map_err(|_| Failure::damaged("a token"))?;
    let rate = row.get::<_, Option<&str>>(8).and_then(|rate| rate.parse::<Rate>().ok());
    let burst = row.get::<_, Option<i64>>(9).and_then(|burst| u32::try_from(burst).ok());
    let quota = row.get::<_, Option<&str>>(10).and_then(|quota| quota.parse::<Quota>().ok());
    let lifetime = row.get::<_, Option<i64>>(15);
    let lifetime = lifetime.map(|millis| Duration::from_millis(u64::try_from(millis).unwrap_or(0)));
    let token = Token {
        id: row.get(1),
        name: row.get(2),
        scopes: Scopes { phone: row.get(3), email: row.get(4) },
        created_at: Timestamp::from_millis(row.get(5)),
        expires_at: time(6),
        revoked_at: time(7),
        rate: rate.map(|rate| Rate { burst: burst.unwrap_or(rate.burst), ..rate }),
        quota,
        last_used_at: time(11),
        hits: u64::try_from(row.get::<_, i64>(12)).unwrap_or(0),
        family: row.get(13),
        rotated_from: row.get(14),
        lifetime: lifetime.map_or(Lifetime::Forever, Lifetime::For),
    };
    Ok((TokenHash::from_bytes(hash), token))
}
