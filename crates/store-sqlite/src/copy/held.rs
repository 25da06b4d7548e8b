//! What a node holds and its database has lost.
//!
//! A database can become an older one: a standby that did not have everything takes over, or a backup is restored. Then the copy
//! follows the older state, but opt-outs and ended tokens that only this node knows stay in force beside it, because losing them
//! discloses people.

use std::collections::HashMap;

use contactd_core::Timestamp;
use contactd_core::store::copying::{AccessChanges, CopiedSuppression};
use contactd_core::store::{EntityRow, EntityTable, Stored, TakenOver, Withdrawals};
use rusqlite::{Connection, Result, params};

use crate::{SqliteStore, connection, entity_rows, withdrawals};

impl SqliteStore {
    /// What is held, in the form in which it is put back.
    pub fn held(&self) -> Stored<Withdrawals> {
        self.with_main(|main| {
            let suppressions = withdrawals::suppressions(main, "held_suppressions")?;
            let rows = [tokens(main)?, Vec::new(), Vec::new()];
            Withdrawals::from_rows(suppressions, rows).map_err(connection::refused)
        })
    }

    /// How many opt-outs and tokens are held.
    pub fn count_held(&self) -> Stored<u64> {
        let count = "SELECT (SELECT count(*) FROM held_suppressions) + (SELECT count(*) FROM held_tokens)";
        self.with_main(|main| main.query_row(count, (), |row| row.get(0)))
    }

    /// Gives up what is held: only what the database has is in force then.
    pub fn give_up_held(&self) -> Stored<()> {
        self.change_access(|transaction| {
            transaction.execute_batch("DELETE FROM held_suppressions; DELETE FROM held_tokens")
        })
    }
}

/// Holds what is in force here, with these suppressions, and lacking in all that another history has.
pub(super) fn hold(
    connection: &Connection,
    here: Vec<CopiedSuppression>,
    there: &AccessChanges,
) -> Result<()> {
    hold_suppressions(connection, here, &there.suppressions)?;
    hold_tokens(connection, &there.tokens)
}

fn hold_suppressions(
    connection: &Connection,
    mut held: Vec<CopiedSuppression>,
    there: &[CopiedSuppression],
) -> Result<()> {
    let key = |row: &CopiedSuppression| (row.digest.clone(), row.key.clone());
    let there: HashMap<_, _> = there.iter().map(|row| (key(row), row)).collect();
    // The database has it, or knows that this very opt-out was taken back.
    held.retain(|row| {
        !there
            .get(&key(row))
            .is_some_and(|found| !found.is_removed || found.suppressed_at == row.suppressed_at)
    });
    let mut hold = connection.prepare("INSERT OR IGNORE INTO held_suppressions VALUES (?1, ?2, ?3)")?;
    for CopiedSuppression { digest, key, suppressed_at, .. } in &held {
        hold.execute(params![digest, key, suppressed_at])?;
    }
    Ok(())
}

fn hold_tokens(connection: &Connection, there: &[EntityRow]) -> Result<()> {
    let mut held = entity_rows::list(connection, EntityTable::Tokens)?;
    // A token that the database does not know is refused anyway.
    held.retain(|row| there.iter().any(|found| found.id == row.id));
    let restricted = restrict(&held, there)?;
    let mut hold = connection.prepare("INSERT OR REPLACE INTO held_tokens VALUES (?1, ?2, ?3)")?;
    for row in held.iter().filter(|row| restricted.iter().any(|restricted| restricted.id == row.id)) {
        hold.execute(params![row.id, row.family, row.body])?;
    }
    Ok(())
}

/// Which of these tokens end earlier or may do less because of those that are held, as they then are.
fn restrict(held: &[EntityRow], tokens: &[EntityRow]) -> Result<Vec<EntityRow>> {
    let restrict = || {
        let held = Withdrawals::from_rows(Vec::new(), [held.to_vec(), Vec::new(), Vec::new()])?;
        // The time is only for tokens that are not among these.
        let now = Timestamp::from_millis(0);
        held.decide(EntityTable::Tokens, tokens, now, &mut TakenOver::default())
    };
    restrict().map_err(connection::refused)
}

/// Forgets what is held if the database has it by now.
pub(super) fn release(connection: &Connection) -> Result<()> {
    let is_there = "SELECT 1 FROM suppressions AS there
        WHERE there.digest = held_suppressions.digest AND there.key = held_suppressions.key";
    connection.execute(&format!("DELETE FROM held_suppressions WHERE EXISTS ({is_there})"), ())?;
    let held = tokens(connection)?;
    if held.is_empty() {
        return Ok(());
    }
    let restricted = restrict(&held, &entity_rows::list(connection, EntityTable::Tokens)?)?;
    let mut release = connection.prepare("DELETE FROM held_tokens WHERE id = ?1")?;
    for row in held.iter().filter(|row| restricted.iter().all(|restricted| restricted.id != row.id)) {
        release.execute([&row.id])?;
    }
    Ok(())
}

/// Makes tokens what they are with those that are held.
pub(crate) fn overlay(connection: &Connection, rows: &mut [EntityRow]) -> Result<()> {
    let held = tokens(connection)?;
    if held.is_empty() {
        return Ok(());
    }
    for restricted in restrict(&held, rows)? {
        if let Some(row) = rows.iter_mut().find(|row| row.id == restricted.id) {
            row.body = restricted.body;
        }
    }
    Ok(())
}

/// The tokens that are held.
fn tokens(connection: &Connection) -> Result<Vec<EntityRow>> {
    let mut list = connection.prepare_cached("SELECT id, family, body FROM held_tokens")?;
    let rows = list.query_map((), |row| {
        Ok(EntityRow { id: row.get(0)?, family: row.get(1)?, body: row.get(2)?, last_used_at: None, hits: 0 })
    })?;
    rows.collect()
}
