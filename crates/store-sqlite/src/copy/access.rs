//! Tokens and suppressions of a copy.

use contactd_core::store::copying::{AccessChanges, CopiedSuppression};
use contactd_core::store::{EntityTable, Stored};
use rusqlite::{Connection, Result, params};

use crate::{SqliteStore, entities};

impl SqliteStore {
    /// Applies changes of tokens and suppressions in one transaction. If `is_whole`, they are all there are, and whatever
    /// else is held goes.
    pub fn apply_access(&self, changes: &AccessChanges, is_whole: bool) -> Stored<()> {
        self.change_access(|transaction| {
            if is_whole {
                forget_others(transaction, changes)?;
            }
            entities::put(transaction, EntityTable::Tokens, &changes.tokens)?;
            put_suppressions(transaction, &changes.suppressions)?;
            transaction
                .execute("UPDATE copy SET number = ?1, id = ?2", params![changes.at.number, changes.at.id])?;
            Ok(())
        })
    }
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
