//! The index of the journal, in its own file, `audit-index.db`.

mod adding;
mod reading;

use adding::{add_step, move_to, position};
use async_trait::async_trait;
use contactd_core::AuditPosition;
use contactd_core::blocking;
use contactd_core::store::{
    AuditFilter, AuditIndex, AuditUsage, EntryPlace, IndexStep, IndexedLine, JournalCopies, StoreError,
    Stored, VisitLines,
};
use parking_lot::{MappedMutexGuard, MutexGuard};
use reading::{indexed, usage, visit_newest};
use rusqlite::{Connection, Result, Row, Transaction};

use crate::ids::{Ids, find_id};
use crate::{SqliteStore, connection, schema};

/// The journal is beside it, so it keeps no copies.
#[async_trait]
impl JournalCopies for SqliteStore {}

#[async_trait]
impl AuditIndex for SqliteStore {
    async fn audit_position(&self, node: &str) -> Stored<AuditPosition> {
        self.read_index(|index| match find_id(index, "names", node)? {
            Some(id) => position(index, id),
            None => Ok(AuditPosition::default()),
        })
    }

    async fn index_audit(&self, step: IndexStep<'_>) -> Stored<bool> {
        self.change_index(|index| add_step(index, step))
    }

    async fn reset_audit_index(&self, node: &str, first_day: i64) -> Stored<()> {
        self.change_index(|index| {
            repair_schema(index)?;
            let node = Ids::default().of(index, "names", node)?;
            index.execute("DELETE FROM events WHERE node = ?1", [node])?;
            index.execute("DELETE FROM admin_events WHERE node = ?1", [node])?;
            index.execute("DELETE FROM usage WHERE node = ?1 AND day >= ?2", (node, first_day))?;
            move_to(index, node, AuditPosition::default())
        })
    }

    async fn forget_audit(&self, node: &str, through: u64) -> Stored<()> {
        self.change_index(|index| {
            let node = Ids::default().of(index, "names", node)?;
            index.execute("DELETE FROM events WHERE node = ?1 AND seq <= ?2", (node, through))?;
            index
                .execute("DELETE FROM admin_events WHERE node = ?1 AND seq <= ?2", (node, through))
                .map(|_| ())
        })
    }

    async fn find_entries(&self, ids: &[String]) -> Stored<Vec<EntryPlace>> {
        self.read_index(|index| {
            let find =
                "SELECT entry, name, seq FROM admin_events JOIN names ON names.id = node WHERE entry = ?1";
            let (mut find, mut found) = (index.prepare_cached(find)?, Vec::new());
            for id in ids {
                let place = |row: &Row<'_>| {
                    Ok(EntryPlace { entry: row.get(0)?, node: row.get(1)?, seq: row.get(2)? })
                };
                found.extend(find.query_map([id], place)?.collect::<Result<Vec<_>>>()?);
            }
            Ok(found)
        })
    }

    async fn indexed(&self, node: &str, from: u64, through: u64) -> Stored<Vec<IndexedLine>> {
        self.read_index(|index| indexed(index, node, from, through))
    }

    async fn indexed_nodes(&self) -> Stored<Vec<String>> {
        self.read_index(|index| {
            let of = TABLES.map(|table| format!("EXISTS (SELECT 1 FROM {table} WHERE node = names.id)"));
            let mut list =
                index.prepare(&format!("SELECT name FROM names WHERE {} ORDER BY name", of.join(" OR ")))?;
            list.query_map((), |row| row.get(0))?.collect()
        })
    }

    async fn count_after_position(&self, node: &str) -> Stored<u64> {
        self.read_index(|index| {
            let of = |table: &str| {
                format!(
                    "(SELECT count(*) FROM {table} WHERE node = ?1
                      AND seq > coalesce((SELECT seq FROM positions WHERE node = ?1), 0))"
                )
            };
            let node = find_id(index, "names", node)?.unwrap_or(0);
            let sql = format!("SELECT {} + {}", of("events"), of("admin_events"));
            index.query_row(&sql, [node], |row| row.get(0))
        })
    }

    async fn remove_node(&self, node: &str) -> Stored<()> {
        self.change_index(|index| {
            let node = Ids::default().of(index, "names", node)?;
            for table in TABLES {
                index.execute(&format!("DELETE FROM {table} WHERE node = ?1"), [node])?;
            }
            Ok(())
        })
    }

    async fn check_index(&self) -> Stored<Vec<String>> {
        self.read_index(|index| {
            let mut wrong = Vec::new();
            let known = INDEXES.map(|(name, _)| format!("'{name}'")).join(", ");
            let is_strange = index.query_row(
                &format!(
                    "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE {MADE} AND name NOT IN ({known}))"
                ),
                (),
                |row| row.get(0),
            )?;
            if is_strange {
                wrong.push("it contains triggers, views or indexes that do not belong there".to_owned());
            }
            let mut check = index.prepare("PRAGMA integrity_check(1)")?;
            let said: String = check.query_row((), |row| row.get(0))?;
            if said != "ok" {
                wrong.push("its tables and indexes do not agree".to_owned());
            }
            Ok(wrong)
        })
    }

    async fn audit_usage_of(&self, node: &str) -> Stored<Vec<AuditUsage>> {
        self.read_index(|index| usage(index, Some(find_id(index, "names", node)?.unwrap_or(0)), i64::MIN))
    }

    async fn visit_audit(&self, filter: &AuditFilter, visit: VisitLines<'_>) -> Stored<()> {
        self.read_index_apart(|index| visit_newest(index, filter, visit))
    }

    async fn audit_usage(&self, since: i64) -> Stored<Vec<AuditUsage>> {
        self.read_index(|index| usage(index, None, since))
    }
}

impl SqliteStore {
    /// The index, opened or created if necessary.
    fn audit(&self) -> Stored<MappedMutexGuard<'_, Connection>> {
        let mut audit = self.audit.lock();
        if audit.is_none() {
            let opened = schema::open(&self.dir.join("audit-index.db"), schema::AUDIT).map_err(error)?;
            // The index can be rebuilt from the journal, so a commit need not wait for the disk.
            opened.execute_batch("PRAGMA synchronous = NORMAL").map_err(error)?;
            *audit = Some(opened);
        }
        let closed = |_| StoreError::Engine("the audit index is not open".to_owned());
        MutexGuard::try_map(audit, Option::as_mut).map_err(closed)
    }

    /// Reads the index.
    pub(crate) fn read_index<T>(&self, read: impl FnOnce(&Connection) -> Result<T>) -> Stored<T> {
        blocking(|| self.audit().and_then(|audit| read(&audit).map_err(error)))
    }

    /// Reads a snapshot with a connection of its own, so that nobody waits for a question that takes long.
    fn read_index_apart<T>(&self, read: impl FnOnce(&Connection) -> Result<T>) -> Stored<T> {
        blocking(|| {
            // Makes the file if there is none.
            drop(self.audit()?);
            match connection::reader(&self.dir.join("audit-index.db")) {
                Ok(index) => index.unchecked_transaction().and_then(|index| read(&index)).map_err(error),
                Err(_) => self.read_index(read),
            }
        })
    }

    /// Changes the index in one transaction.
    fn change_index<T>(&self, change: impl FnOnce(&Transaction<'_>) -> Result<T>) -> Stored<T> {
        blocking(|| {
            let mut audit = self.audit()?;
            let transaction = connection::write(&mut audit).map_err(error)?;
            let done = change(&transaction).map_err(error)?;
            transaction.commit().map_err(error)?;
            Ok(done)
        })
    }
}

/// The indexes of the file, by name.
const INDEXES: [(&str, &str); 5] = [
    ("events_by_time", "events (at)"),
    ("events_by_profile", "events (profile) WHERE profile IS NOT NULL"),
    ("events_by_value", "events (value) WHERE value IS NOT NULL"),
    ("admin_events_by_time", "admin_events (at)"),
    ("admin_events_by_entry", "admin_events (entry)"),
];
/// The tables that have lines of nodes.
const TABLES: [&str; 4] = ["events", "admin_events", "positions", "usage"];
/// Selects what somebody made in the file beside tables. Indexes without SQL belong to their tables.
const MADE: &str = "(type IN ('trigger', 'view') OR (type = 'index' AND sql IS NOT NULL))";

/// Makes the indexes anew, and removes what does not belong into the file.
fn repair_schema(index: &Transaction<'_>) -> Result<()> {
    let mut list = index.prepare(&format!("SELECT type, name FROM sqlite_schema WHERE {MADE}"))?;
    let found = list.query_map((), |row| Ok((row.get(0)?, row.get(1)?)))?;
    let found: Vec<(String, String)> = found.collect::<Result<_>>()?;
    for (kind, name) in found {
        index.execute_batch(&format!("DROP {kind} \"{}\"", name.replace('"', "\"\"")))?;
    }
    for (name, what) in INDEXES {
        index.execute_batch(&format!("CREATE INDEX {name} ON {what}"))?;
    }
    Ok(())
}

/// Converts an error of SQLite. A damaged index can be rebuilt from the journal, so nothing needs to be restored from a backup.
fn error(error: rusqlite::Error) -> StoreError {
    match connection::error(error) {
        StoreError::Damaged(_) => StoreError::Damaged(
            "audit-index.db is damaged; delete it, and it is rebuilt from the journal, except usage counts of days that \
             the journal no longer has".to_owned(),
        ),
        error => error,
    }
}
