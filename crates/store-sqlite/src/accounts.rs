//! Users and admin tokens.

use async_trait::async_trait;
use contactd_core::store::{Accounts, Noted, StoreError};
use contactd_core::{
    AdminToken, PasswordHash, Role, Timestamp, TokenHash, TotpSeed, User, UserChange, UserChanged,
};
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::{SqliteStore, outbox};

const USER: &str = "name, role, created_at, disabled_at, password, must_change_password, totp_key, totp_salt,
    totp_last_step, last_login_at, generation";
const TOKEN: &str = "id, name, role, created_at, expires_at, revoked_at, last_used_at";

#[async_trait]
impl Accounts for SqliteStore {
    async fn create_user(&self, user: &User, entry: Noted<'_>) -> Result<bool, StoreError> {
        self.change_main(|transaction| {
            let is_new = put_user(transaction, "INSERT OR IGNORE", user)? > 0;
            outbox::add(transaction, entry.filter(|_| is_new), &[])?;
            Ok(is_new)
        })
    }

    async fn find_user(&self, name: &str) -> Result<Option<User>, StoreError> {
        let find = format!("SELECT {USER} FROM users WHERE name = ?1");
        self.with_main(|main| main.prepare_cached(&find)?.query_row([name], user).optional())
    }

    async fn list_users(&self) -> Result<Vec<User>, StoreError> {
        self.with_main(list_users)
    }

    async fn change_user(
        &self,
        name: &str,
        change: &UserChange,
        entry: Noted<'_>,
    ) -> Result<UserChanged, StoreError> {
        self.change_main(|transaction| {
            let changed = change.decide(&list_users(transaction)?, name);
            if let UserChanged::Done(user) = &changed {
                put_user(transaction, "INSERT OR REPLACE", user)?;
                outbox::add(transaction, entry, &[])?;
            }
            Ok(changed)
        })
    }

    async fn create_admin_token(
        &self,
        hash: &TokenHash,
        token: &AdminToken,
        entry: Noted<'_>,
    ) -> Result<(), StoreError> {
        self.change_main(|transaction| {
            outbox::add(transaction, entry, &[])?;
            let time = |at: Option<Timestamp>| at.map(Timestamp::millis);
            transaction.execute(
                &format!("INSERT INTO admin_tokens ({TOKEN}, hash) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)"),
                params![
                    token.id,
                    token.name,
                    token.role.name(),
                    token.created_at.millis(),
                    time(token.expires_at),
                    time(token.revoked_at),
                    time(token.last_used_at),
                    hash.as_bytes(),
                ],
            )?;
            Ok(())
        })
    }

    async fn find_admin_token(&self, hash: &TokenHash) -> Result<Option<AdminToken>, StoreError> {
        let find = format!("SELECT {TOKEN} FROM admin_tokens WHERE hash = ?1");
        self.with_main(|main| {
            main.prepare_cached(&find)?.query_row([hash.as_bytes()], admin_token).optional()
        })
    }

    async fn list_admin_tokens(&self) -> Result<Vec<AdminToken>, StoreError> {
        let list = format!("SELECT {TOKEN} FROM admin_tokens ORDER BY created_at, rowid");
        self.with_main(|main| main.prepare_cached(&list)?.query_map((), admin_token)?.collect())
    }

    async fn revoke_admin_token(
        &self,
        id: &str,
        at: Timestamp,
        entry: Noted<'_>,
    ) -> Result<Option<AdminToken>, StoreError> {
        self.change_main(|transaction| {
            let revoke = "UPDATE admin_tokens SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL";
            transaction.execute(revoke, params![id, at.millis()])?;
            let find = format!("SELECT {TOKEN} FROM admin_tokens WHERE id = ?1");
            let found = transaction.query_row(&find, [id], admin_token).optional()?;
            outbox::add(transaction, entry.filter(|_| found.is_some()), &[])?;
            Ok(found)
        })
    }

    async fn note_admin_token_use(&self, id: &str, at: Timestamp) -> Result<(), StoreError> {
        let note = "UPDATE admin_tokens SET last_used_at = max(coalesce(last_used_at, ?2), ?2) WHERE id = ?1";
        self.with_main(|main| main.execute(note, params![id, at.millis()]).map(|_| ()))
    }
}

/// Stores a user. Returns how many rows that changed.
fn put_user(connection: &Connection, how: &str, user: &User) -> rusqlite::Result<usize> {
    let totp = user.totp.as_ref();
    connection.execute(
        &format!("{how} INTO users ({USER}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)"),
        params![
            user.name,
            user.role.name(),
            user.created_at.millis(),
            user.disabled_at.map(Timestamp::millis),
            user.password.as_str(),
            user.must_change_password,
            totp.map(|seed| &seed.key),
            totp.map(|seed| &seed.salt),
            totp.map(|seed| seed.last_step),
            user.last_login_at.map(Timestamp::millis),
            user.generation,
        ],
    )
}

fn list_users(connection: &Connection) -> rusqlite::Result<Vec<User>> {
    let mut list = connection.prepare_cached(&format!("SELECT {USER} FROM users ORDER BY name"))?;
    list.query_map((), user)?.collect()
}

fn user(row: &Row<'_>) -> rusqlite::Result<User> {
    let key: Option<String> = row.get(6)?;
    let totp = match key {
        Some(key) => Some(TotpSeed { key, salt: row.get(7)?, last_step: row.get(8)? }),
        None => None,
    };
    Ok(User {
        name: row.get(0)?,
        role: role(row, 1)?,
        created_at: Timestamp::from_millis(row.get(2)?),
        disabled_at: time(row, 3)?,
        password: PasswordHash::from_store(row.get(4)?),
        must_change_password: row.get(5)?,
        totp,
        last_login_at: time(row, 9)?,
        generation: row.get(10)?,
    })
}

fn admin_token(row: &Row<'_>) -> rusqlite::Result<AdminToken> {
    Ok(AdminToken {
        id: row.get(0)?,
        name: row.get(1)?,
        role: role(row, 2)?,
        created_at: Timestamp::from_millis(row.get(3)?),
        expires_at: time(row, 4)?,
        revoked_at: time(row, 5)?,
        last_used_at: time(row, 6)?,
    })
}

fn time(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Timestamp>> {
    row.get::<_, Option<i64>>(column).map(|at| at.map(Timestamp::from_millis))
}

fn role(row: &Row<'_>, column: usize) -> rusqlite::Result<Role> {
    let name: String = row.get(column)?;
    name.parse()
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error)))
}
