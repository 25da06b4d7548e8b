//! The index of the journals of all nodes.
//!
//! Who changes what is indexed of a node locks the row of its name. Indexing is no change of the store and has no number: a
//! step says where it begins and ends, which makes it happen once.

mod adding;
mod names;
mod reading;

use std::sync::atomic::AtomicBool;

use adding::{add_step, move_to, position};
use async_trait::async_trait;
use contactd_core::AuditPosition;
use contactd_core::store::{
    AuditFilter, AuditIndex, AuditUsage, EntryPlace, IndexStep, IndexedLine, StoreError, Stored, VisitLines,
};
use names::find_name;
use tokio_postgres::Row;

use crate::PostgresStore;
use crate::database::Work;
use crate::usage::{signed, unsigned};
pub(crate) use adding::position_in;
pub(crate) use names::lock_node;

/// The tables that have lines of nodes.
const TABLES: [&str; 4] = ["events", "admin_events", "positions", "audit_usage"];

#[async_trait]
impl AuditIndex for PostgresStore {
    async fn audit_position(&self, node: &str) -> Stored<AuditPosition> {
        let read = move |work: Work| async move {
            self.check_claim(&work, node).await?;
            match find_name(&work, node).await? {
                Some(node) => position(&work, node).await,
                None => Ok(AuditPosition::default()),
            }
        };
        self.database.read(read).await
    }

    async fn index_audit(&self, step: IndexStep<'_>) -> Stored<bool> {
        // Whether an earlier attempt got as far as its commit, and may have been committed.
        let was_added = &AtomicBool::new(false);
        self.database.prepare(move |work| async move { add_step(self, &work, step, was_added).await }).await
    }

    async fn reset_audit_index(&self, node: &str, first_day: i64) -> Stored<()> {
        let prepare = move |work: Work| async move {
            let id = lock_node(&work, node).await?;
            self.check_claim(&work, node).await?;
            work.execute("DELETE FROM events WHERE node = $1", &[&id]).await?;
            work.execute("DELETE FROM admin_events WHERE node = $1", &[&id]).await?;
            work.execute("DELETE FROM audit_usage WHERE node = $1 AND day >= $2", &[&id, &first_day]).await?;
            move_to(&work, id, AuditPosition::default()).await
        };
        self.database.prepare(prepare).await
    }

    async fn forget_audit(&self, node: &str, through: u64) -> Stored<()> {
        let prepare = move |work: Work| async move {
            self.check_claim(&work, node).await?;
            let (node, through) = (lock_node(&work, node).await?, signed(through));
            work.execute("DELETE FROM events WHERE node = $1 AND seq <= $2", &[&node, &through]).await?;
            work.execute("DELETE FROM admin_events WHERE node = $1 AND seq <= $2", &[&node, &through])
                .await?;
            Ok(())
        };
        self.database.prepare(prepare).await
    }

    async fn find_entries(&self, ids: &[String]) -> Stored<Vec<EntryPlace>> {
        let find =
            "SELECT entry, name, seq FROM admin_events JOIN names ON names.id = node WHERE entry = ANY($1)";
        Ok(self.database.query(find, &[&ids]).await?.iter().map(place).collect())
    }

    async fn indexed(&self, node: &str, from: u64, through: u64) -> Stored<Vec<IndexedLine>> {
        self.database
            .read(move |work| async move { reading::indexed(&work, node, from, through).await })
            .await
    }

    /// Usage counts stay when the lines of a node that is gone are removed, so they are not asked for.
    async fn indexed_nodes(&self) -> Stored<Vec<String>> {
        let list = "SELECT name FROM names WHERE EXISTS (SELECT 1 FROM events WHERE node = names.id)
            OR EXISTS (SELECT 1 FROM admin_events WHERE node = names.id)
            OR EXISTS (SELECT 1 FROM positions WHERE node = names.id AND seq > 0) ORDER BY name";
        Ok(self.database.query(list, &[]).await?.iter().map(|row| row.get(0)).collect())
    }

    async fn count_after_position(&self, node: &str) -> Stored<u64> {
        self.database.read(move |work| async move {
            let node = find_name(&work, node).await?.unwrap_or(0);
            let count = "WITH here AS (SELECT coalesce(max(seq), 0) AS seq FROM positions WHERE node = $1)
                SELECT (SELECT count(*) FROM events, here WHERE node = $1 AND events.seq > here.seq)
                    + (SELECT count(*) FROM admin_events, here WHERE node = $1 AND admin_events.seq > here.seq)";
            Ok(unsigned(work.query_one(count, &[&node]).await?.get(0)))
        }).await
    }

    async fn remove_node(&self, node: &str) -> Stored<()> {
        let prepare = move |work: Work| async move {
            let node = lock_node(&work, node).await?;
            for table in TABLES {
                work.execute(&format!("DELETE FROM {table} WHERE node = $1"), &[&node]).await?;
            }
            Ok(())
        };
        self.database.prepare(prepare).await
    }

    /// PostgreSQL checks its own files.
    async fn check_index(&self) -> Stored<Vec<String>> {
        Ok::<_, StoreError>(Vec::new())
    }

    async fn audit_usage_of(&self, node: &str) -> Stored<Vec<AuditUsage>> {
        let read = move |work: Work| async move {
            let node = find_name(&work, node).await?.unwrap_or(0);
            reading::usage(&work, Some(node), i64::MIN).await
        };
        self.database.read(read).await
    }

    async fn visit_audit(&self, filter: &AuditFilter, visit: VisitLines<'_>) -> Stored<()> {
        reading::visit_newest(&self.database, filter, visit).await
    }

    async fn audit_usage(&self, since: i64) -> Stored<Vec<AuditUsage>> {
        self.database.read(move |work| async move { reading::usage(&work, None, since).await }).await
    }
}

/// Where an entry is, in the first three columns of a row.
pub(crate) fn place(row: &Row) -> EntryPlace {
    EntryPlace { entry: row.get(0), node: row.get(1), seq: unsigned(row.get(2)) }
}
