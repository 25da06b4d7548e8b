//! Tokens and suppressions of a copy.

use contactd_core::store::copying::{AccessChanges, CopiedSuppression};
use contactd_core::store::{EntityTable, Stored};
use rusqlite::{Connection, OptionalExtension, Result, Row, params};

use super::held;
use crate::{SqliteStore, connection, entity_rows};

impl SqliteStore {
    /// All tokens and suppressions of the copy, as the database has them, and the last change that it contains.
    pub fn read_access(&self) -> Stored<AccessChanges> {
        connection::stored(|| {
            let mut main = connection::reader(&self.main_file())?;
            let main = main.transaction()?;
            let at = "SELECT number, id FROM copy";
            let at = main.query_row(at, (), |row| Ok(super::point(row.get(0)?, row.get(1)?))).optional()?;
            Ok(AccessChanges {
                tokens: entity_rows::list(&main, EntityTable::Tokens)?,
                suppressions: suppressions(&main)?,
                at: at.unwrap_or_default(),
                changes: Vec::new(),
            })
        })
    }

    /// The rows of the copy that these changes replace.
    pub fn replaced_by(&self, changes: &AccessChanges) -> Stored<AccessChanges> {
        self.with_main(|main| {
            let mut replaced = AccessChanges::default();
            let mut tokens = entity_rows::list(main, EntityTable::Tokens)?;
            tokens.retain(|row| changes.tokens.iter().any(|changed| changed.id == row.id));
            let find = "SELECT digest, key, suppressed_at FROM suppressions WHERE digest = ?1 AND key = ?2";
            let mut find = main.prepare_cached(find)?;
            for CopiedSuppression { digest, key, .. } in &changes.suppressions {
                replaced.suppressions.extend(find.query_row(params![digest, key], suppression).optional()?);
            }
            replaced.tokens = tokens;
            Ok(replaced)
        })
    }

    /// Applies changes of tokens and suppressions in one transaction. If `is_whole`, they are all there are, and whatever
    /// else is held goes.
    pub fn apply_access(&self, changes: &AccessChanges, is_whole: bool) -> Stored<()> {
        self.change_access(|transaction| apply(transaction, changes, is_whole))
    }

    /// Applies all there is in a database that has another history than this copy. What it lacks of the opt-outs and the limits of tokens
    /// that are in force here is held.
    pub fn apply_other_history(&self, changes: &AccessChanges) -> Stored<()> {
        self.change_access(|transaction| {
            held::hold(transaction, suppressions(transaction)?, changes)?;
            apply(transaction, changes, true)
        })
    }
}

fn apply(connection: &Connection, changes: &AccessChanges, is_whole: bool) -> Result<()> {
    if is_whole {
        forget_others(connection, changes)?;
    }
    entity_rows::put(connection, EntityTable::Tokens, &changes.tokens)?;
    put_suppressions(connection, &changes.suppressions)?;
    held::release(connection)?;
    connection.execute("UPDATE copy SET number = ?1, id = ?2", params![changes.at.number, changes.at.id])?;
    Ok(())
}

/// Removes what is not among these. Tokens are kept where possible, because their order is that of their rows.
fn forget_others(connection: &Connection, changes: &AccessChanges) -> Result<()> {
    connection.execute("DELETE FROM suppressions", ())?;
    let held = connection
        .prepare("SELECT id FROM tokens")?
        .query_map((), |row| row.get(0))?
        .collect::<Result<Vec<String>>>()?;
    let mut forget = connection.prepare("DELETE FROM tokens WHERE id = ?1")?;
    let known: std::collections::HashSet<&str> =
        changes.tokens.iter().map(|token| token.id.as_str()).collect();
    for id in held.iter().filter(|id| !known.contains(id.as_str())) {
        forget.execute([id])?;
    }
    Ok(())
}

fn put_suppressions(connection: &Connection, suppressions: &[CopiedSuppression]) -> Result<()> {
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

pub(super) fn suppressions(connection: &Connection) -> Result<Vec<CopiedSuppression>> {
    let mut read = connection.prepare("SELECT digest, key, suppressed_at FROM suppressions")?;
    read.query_map((), suppression)?.collect()
}

fn suppression(row: &Row<'_>) -> Result<CopiedSuppression> {
    let (digest, key, suppressed_at) = (row.get(0)?, row.get(1)?, row.get(2)?);
    Ok(CopiedSuppression { digest, key, suppressed_at, is_removed: false })
}
