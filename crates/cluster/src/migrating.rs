//! Moving an embedded store into the database of a cluster.

use std::sync::Arc;

use contactd_core::store::moving::{MOVED, MovedKey};
use contactd_core::store::{Facts, Outbox, StoreError, Stored};
use contactd_core::{Actor, AdminEntry, Observer, Progress, Timestamp};
use contactd_store_postgres::{MoveState, PostgresStore};
use contactd_store_sqlite::SqliteStore;
use serde::Serialize;

/// Rows that are moved in one transaction.
const ROWS: u64 = 50_000;

/// Moves the store of a data directory into a database.
pub struct Migration {
    /// The files of the data directory. Nobody else may use them meanwhile.
    pub files: Arc<SqliteStore>,
    /// The database.
    pub database: Arc<PostgresStore>,
    /// The name of this directory's node.
    pub node: String,
}

/// What was moved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Migrated {
    /// How many rows of what, each compared with the database.
    pub tables: Vec<MigratedTable>,
    /// Whether an earlier run had moved a part of it.
    pub was_resumed: bool,
}

/// Rows of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MigratedTable {
    /// What they are.
    pub what: &'static str,
    /// How many.
    pub count: u64,
}

/// Why a store was not moved.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    /// The database is in use.
    #[error(
        "this database holds other data, or another store is being moved into it. Give an empty database: \
         `createdb NAME` makes one"
    )]
    Taken,
    /// It was moved before, and is used since then.
    #[error(
        "this store was moved into this database before, and the database is in use since then: it holds a complete store, with newer \
         data. Nothing was changed. To use it, start a node with --store and an empty data directory, or the one that was moved. To keep \
         what this data directory holds, move it into another, empty database: `createdb NAME` makes one"
    )]
    InUse,
    /// The directory is a node's.
    #[error("this data directory belongs to a node of a cluster: its store is in a database already")]
    Copy,
    /// What was moved is not what the directory holds.
    #[error(
        "the database does not hold what the data directory holds ({0}). Nothing uses the database yet: drop it, make an empty \
         one, and run this again"
    )]
    Different(String),
    /// A store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Migration {
    /// Moves everything, compares counts and digests, and makes the directory that of a node. If it is interrupted, the next
    /// run goes on. The entry for the journal waits in the database.
    pub async fn run(
        &self,
        actor: &Actor,
        at: Timestamp,
        observer: Observer<'_>,
    ) -> Result<Migrated, MigrateError> {
        let lineage = self.database.lineage().await?;
        if self.files.copy_state()?.is_some() {
            return Err(MigrateError::Copy);
        }
        let (first, after, was_resumed) = match self.database.begin_move(&self.node).await? {
            MoveState::At(table, after) => (table, after, table > 0 || after.is_some()),
            MoveState::Done => return self.end_again(actor, at, &lineage).await,
            MoveState::Taken => return Err(MigrateError::Taken),
        };
        self.move_tables(first, after, observer).await?;
        self.database.store_usage(&self.node, &self.files.usage_since(i64::MIN)?).await?;
        if let Some(key) = self.files.fact("digest_key").await? {
            self.database.remember("digest_key", &key).await?;
        }
        observer(Progress::Copying {
            step: "comparing the database with the data directory",
            done: 0,
            all: None,
        });
        let tables = self.compare().await?;
        self.database.end_move(&self.node).await?;
        self.give_away(actor, at, &lineage, &tables).await?;
        Ok(Migrated { tables, was_resumed })
    }

    /// Ends a move whose rows are all in the database: its last run was interrupted, or this is an old copy of the data directory.
    async fn end_again(&self, actor: &Actor, at: Timestamp, lineage: &str) -> Result<Migrated, MigrateError> {
        if !self.database.list_nodes().await?.is_empty() {
            return Err(MigrateError::InUse);
        }
        let tables = match self.compare().await {
            Err(MigrateError::Different(_)) => return Err(MigrateError::InUse),
            compared => compared?,
        };
        self.give_away(actor, at, lineage, &tables).await?;
        Ok(Migrated { tables, was_resumed: true })
    }

    /// Notes for the journal what was moved, and makes the directory that of a node.
    async fn give_away(
        &self,
        actor: &Actor,
        at: Timestamp,
        lineage: &str,
        tables: &[MigratedTable],
    ) -> Stored<()> {
        let details = tables.iter().find(|table| table.what == "details").map_or(0, |table| table.count);
        let entry = AdminEntry::new(actor, "migrate", at).counted(&[("details", details)]);
        self.database.add_entry(&entry).await?;
        // Last: from here on, only a node uses this directory.
        self.files.begin_copy(lineage)
    }

    async fn move_tables(
        &self,
        first: usize,
        mut after: Option<MovedKey>,
        observer: Observer<'_>,
    ) -> Stored<()> {
        for (index, table) in MOVED.iter().enumerate().skip(first) {
            let all = self.files.count_moved(table)?;
            let mut done = 0;
            loop {
                let rows = self.files.read_moved(table, after, ROWS)?;
                self.database.put_moved(&self.node, index, &rows).await?;
                done += rows.lines.len() as u64;
                observer(Progress::Writing { rows: done, all });
                after = rows.next;
                if after.is_none() {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Compares counts of all tables, and digests of details, tokens and opt-outs.
    async fn compare(&self) -> Result<Vec<MigratedTable>, MigrateError> {
        let mut tables = Vec::new();
        for table in MOVED {
            let (here, there) = (self.files.count_moved(table)?, self.database.count_moved(table).await?);
            if here != there {
                return Err(MigrateError::Different(format!("{}: {here} and {there}", table.what)));
            }
            tables.push(MigratedTable { what: table.what, count: here });
        }
        let (here, there) = (self.files.digest()?, self.database.digest().await?);
        if here.details_digest != there.details_digest {
            return Err(MigrateError::Different("the digest of the details".to_owned()));
        }
        if here.access_digest != there.access_digest {
            return Err(MigrateError::Different("the digest of tokens and opt-outs".to_owned()));
        }
        Ok(tables)
    }
}
