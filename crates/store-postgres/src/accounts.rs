//! Users and admin tokens.

use async_trait::async_trait;
use contactd_core::store::{Accounts, Noted, StoreError};
use contactd_core::{
    AdminToken, PasswordHash, Role, Timestamp, TokenHash, TotpSeed, User, UserChange, UserChanged,
};
use tokio_postgres::Row;

use crate::database::{Counter, Work};
use crate::failure::Failure;
use crate::{PostgresStore, outbox};

const USER: &str = "name, role, created_at, disabled_at, password, must_change_password, totp_key, totp_salt,
    totp_last_step, last_login_at, generation";
const TOKEN: &str = "id, name, role, created_at, expires_at, revoked_at, last_used_at";

#[async_trait]
impl Accounts for PostgresStore {
    async fn create_user(&self, user: &User, entry: Noted<'_>) -> Result<bool, StoreError> {
        self.database
            .change(Counter::Usage, move |work| async move {
                let is_new = put_user(&work, user, "DO NOTHING").await? > 0;
                outbox::add(&work, entry.filter(|_| is_new), &[]).await?;
                Ok(is_new)
            })
            .await
    }

    async fn find_user(&self, name: &str) -> Result<Option<User>, StoreError> {
        self.database
            .read(move |work| async move {
                let find = format!("SELECT {USER} FROM users WHERE name = $1");
                work.query_opt(&find, &[&name]).await?.as_ref().map(user).transpose()
            })
            .await
    }

    async fn list_users(&self) -> Result<Vec<User>, StoreError> {
        self.database.read(|work| async move { list_users(&work).await }).await
    }

    async fn change_user(
        &self,
        name: &str,
        change: &UserChange,
        entry: Noted<'_>,
    ) -> Result<UserChanged, StoreError> {
        // The lock of the counter keeps all other changes of users out.
        self.database
            .change(Counter::Usage, move |work| async move {
                let changed = change.decide(&list_users(&work).await?, name);
                if let UserChanged::Done(user) = &changed {
                    let replace =
                        "(name) DO UPDATE SET role = excluded.role, created_at = excluded.created_at,
                    disabled_at = excluded.disabled_at, password = excluded.password,
                    must_change_password = excluded.must_change_password, totp_key = excluded.totp_key,
                    totp_salt = excluded.totp_salt, totp_last_step = excluded.totp_last_step,
                    last_login_at = excluded.last_login_at, generation = excluded.generation";
                    put_user(&work, user, replace).await?;
                    outbox::add(&work, entry, &[]).await?;
                }
                Ok(changed)
            })
            .await
    }

    async fn create_admin_token(
        &self,
        hash: &TokenHash,
        token: &AdminToken,
        entry: Noted<'_>,
    ) -> Result<(), StoreError> {
        self.database
            .change(Counter::Usage, move |work| async move {
                outbox::add(&work, entry, &[]).await?;
                let insert = format!(
                    "INSERT INTO admin_tokens ({TOKEN}, hash) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)"
                );
                work.execute(
                    &insert,
                    &[
                        &token.id,
                        &token.name,
                        &token.role.name(),
                        &token.created_at.millis(),
                        &token.expires_at.map(Timestamp::millis),
                        &token.revoked_at.map(Timestamp::millis),
                        &token.last_used_at.map(Timestamp::millis),
                        &&hash.as_bytes()[..],
                    ],
                )
                .await?;
                Ok(())
            })
            .await
    }

    async fn find_admin_token(&self, hash: &TokenHash) -> Result<Option<AdminToken>, StoreError> {
        self.database
            .read(move |work| async move {
                let find = format!("SELECT {TOKEN} FROM admin_tokens WHERE hash = $1");
                let found = work.query_opt(&find, &[&&hash.as_bytes()[..]]).await?;
                found.as_ref().map(admin_token).transpose()
            })
            .await
    }

    async fn list_admin_tokens(&self) -> Result<Vec<AdminToken>, StoreError> {
        self.database
            .read(|work| async move {
                let list = format!("SELECT {TOKEN} FROM admin_tokens ORDER BY created_at, place");
                work.query(&list, &[]).await?.iter().map(admin_token).collect()
            })
            .await
    }

    async fn revoke_admin_token(
        &self,
        id: &str,
        at: Timestamp,
        entry: Noted<'_>,
    ) -> Result<Option<AdminToken>, StoreError> {
        self.database
            .change(Counter::Usage, move |work| async move {
                let revoke = "UPDATE admin_tokens SET revoked_at = $2 WHERE id = $1 AND revoked_at IS NULL";
                work.execute(revoke, &[&id, &at.millis()]).await?;
                let find = format!("SELECT {TOKEN} FROM admin_tokens WHERE id = $1");
                let found = work.query_opt(&find, &[&id]).await?.as_ref().map(admin_token).transpose()?;
                outbox::add(&work, entry.filter(|_| found.is_some()), &[]).await?;
                Ok(found)
            })
            .await
    }

    async fn note_admin_token_use(&self, id: &str, at: Timestamp) -> Result<(), StoreError> {
        self.database
            .prepare(move |work| async move {
                // Nulls do not count for the greatest.
                let note = "UPDATE admin_tokens SET last_used_at = greatest(last_used_at, $2) WHERE id = $1";
                work.execute(note, &[&id, &at.millis()]).await?;
                Ok(())
            })
            .await
    }
}

/// Stores a user. Returns how many rows that changed.
async fn put_user(work: &Work, user: &User, on_conflict: &str) -> Result<u64, Failure> {
    let put = format!(
        "INSERT INTO users ({USER}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) ON CONFLICT {on_conflict}"
    );
    let totp = user.totp.as_ref();
    let changed = work
        .execute(
            &put,
            &[
                &user.name,
                &user.role.name(),
                &user.created_at.millis(),
                &user.disabled_at.map(Timestamp::millis),
                &user.password.as_str(),
                &user.must_change_password,
                &totp.map(|seed| seed.key.as_str()),
                &totp.map(|seed| seed.salt.as_str()),
                &totp.map(|seed| seed.last_step),
                &user.last_login_at.map(Timestamp::millis),
                &user.generation,
            ],
        )
        .await?;
    Ok(changed)
}

async fn list_users(work: &Work) -> Result<Vec<User>, Failure> {
    let list = format!("SELECT {USER} FROM users ORDER BY name");
    work.query(&list, &[]).await?.iter().map(user).collect()
}

fn user(row: &Row) -> Result<User, Failure> {
    let seed = |key: String| TotpSeed {
        key,
        salt: row.get::<_, Option<String>>(7).unwrap_or_default(),
        last_step: row.get::<_, Option<i64>>(8).unwrap_or(i64::MAX),
    };
    Ok(User {
        name: row.get(0),
        role: role(row.get(1), "a user")?,
        created_at: Timestamp::from_millis(row.get(2)),
        disabled_at: time(row, 3),
        password: PasswordHash::from_store(row.get(4)),
        must_change_password: row.get(5),
        totp: row.get::<_, Option<String>>(6).map(seed),
        last_login_at: time(row, 9),
        generation: row.get(10),
    })
}

fn admin_token(row: &Row) -> Result<AdminToken, Failure> {
    Ok(AdminToken {
        id: row.get(0),
        name: row.get(1),
        role: role(row.get(2), "an admin token")?,
        created_at: Timestamp::from_millis(row.get(3)),
        expires_at: time(row, 4),
        revoked_at: time(row, 5),
        last_used_at: time(row, 6),
    })
}

fn time(row: &Row, column: usize) -> Option<Timestamp> {
    row.get::<_, Option<i64>>(column).map(Timestamp::from_millis)
}

fn role(name: &str, whose: &'static str) -> Result<Role, Failure> {
    name.parse().map_err(|_| Failure::damaged(whose))
}
