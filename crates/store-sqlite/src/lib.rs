//! The SQLite engine.
//!
//! It has three files, because SQLite allows one writer per file: `contactd.db` holds tokens, accounts, suppressions and
//! usage, `details.db` the details, `audit-index.db` the index of the journal. So a long import never delays a
//! revocation or an opt-out.
//!
//! Lookups read a table made from the details (`lookup_table.rs`), and where that cannot tell, the details themselves: on the thread
//! that serves them, each thread with its own read-only connection (`reader.rs`). They never wait for a writer. Watching for changes never does either: it has its own connections (`changes.rs`), and
//! every write to `details.db` opens a connection for itself.

mod ahead;
mod audit;
mod changes;
mod connection;
mod copy;
mod details;
mod entities;
mod entity_rows;
mod facts;
mod former;
mod ids;
mod import;
mod lookup_table;
mod maintenance;
mod moving;
mod outbox;
mod profile_rows;
mod reader;
mod retention;
mod schema;
mod steady;
mod suppressions;
mod sweep;
#[cfg(test)]
mod testing;
mod totals;
mod undo;
mod usage;
mod wipe;
mod withdrawals;
mod writing;

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use contactd_core::store::{Store, StoreError, Stored};
use parking_lot::Mutex;
use rusqlite::{Connection, Result, Transaction};
use thread_local::ThreadLocal;

use crate::changes::Watch;
use crate::lookup_table::{Current, LookupTable};
use crate::reader::Reader;

pub use connection::WAL_LIMIT;
pub use copy::{ApplyingDetails, CopyState};
pub use lookup_table::{AnsweredFrom, TableStatus};

/// The databases in a data directory.
pub struct SqliteStore {
    dir: PathBuf,
    /// `contactd.db`.
    main: Mutex<Connection>,
    watch: Mutex<Watch>,
    readers: ThreadLocal<Reader>,
    lookup_table: LookupTable,
    /// What each thread that serves lookups reads.
    seen: ThreadLocal<Seen>,
    /// Increases when readers have to renew their snapshots.
    generation: AtomicU64,
    /// `audit-index.db`, opened when first needed.
    audit: Mutex<Option<Connection>>,
}

/// What one thread reads, and the generation in which it was current.
#[derive(Default)]
struct Seen(RefCell<(Option<u64>, Arc<Current>)>);

impl Store for SqliteStore {}

impl SqliteStore {
    /// Whether there is a store in `dir`, whole or not.
    pub fn is_in(dir: &Path) -> bool {
        dir.join("contactd.db").is_file() || dir.join("details.db").is_file()
    }

    /// Opens the databases in `dir`, which must exist; makes them or brings them to the newest schema if necessary.
    pub fn open(dir: &Path) -> Stored<Self> {
        connection::stored(|| Self::open_files(dir))
    }

    fn open_files(dir: &Path) -> Result<Self> {
        let (main, details) = (dir.join("contactd.db"), dir.join("details.db"));
        if details.exists() && !schema::is_made(&main)? {
            // It is made before the details are, so it was there: with a new one, people who opted out would be disclosed.
            return Err(connection::refused(StoreError::Damaged(
                "contactd.db, which holds tokens and opt-outs, is missing or empty beside details.db; restore it from a backup"
                    .to_owned(),
            )));
        }
        let main_writer = schema::open(&main, schema::CONTACTD)?;
        // Opened once so that the file exists and has the newest schema.
        drop(schema::open(&details, schema::DETAILS)?);
        Ok(Self {
            dir: dir.to_owned(),
            main: Mutex::new(main_writer),
            watch: Mutex::new(Watch::open(&main, &details)?),
            readers: ThreadLocal::new(),
            lookup_table: LookupTable::new(dir.to_owned()),
            seen: ThreadLocal::new(),
            generation: AtomicU64::new(0),
            audit: Mutex::default(),
        })
    }

    /// From now on this process answers lookups: from a table that is made of the details, in memory if it has no more bytes than
    /// this.
    #[must_use]
    pub fn with_lookup_table(mut self, memory: u64) -> Self {
        self.lookup_table.answer_lookups(memory);
        self
    }

    /// Where lookups are answered from.
    pub fn table_status(&self) -> TableStatus {
        self.lookup_table.status()
    }

    /// Uses `contactd.db`, without a transaction around it.
    fn with_main<T>(&self, run: impl FnOnce(&Connection) -> Result<T>) -> Stored<T> {
        connection::run_blocking(|| run(&self.main.lock()))
    }

    /// Changes `contactd.db` in one transaction.
    fn change_main<T>(&self, change: impl FnOnce(&Transaction<'_>) -> Result<T>) -> Stored<T> {
        connection::run_blocking(|| {
            let mut main = self.main.lock();
            let transaction = connection::write(&mut main)?;
            let done = change(&transaction)?;
            transaction.commit()?;
            Ok(done)
        })
    }

    /// Changes tokens or suppressions and increases the change number, in one transaction.
    fn change_access<T>(&self, change: impl FnOnce(&Transaction<'_>) -> Result<T>) -> Stored<T> {
        self.change_main(|transaction| {
            let done = change(transaction)?;
            changes::count(transaction)?;
            Ok(done)
        })
    }

    fn main_file(&self) -> PathBuf {
        self.dir.join("contactd.db")
    }

    fn details_file(&self) -> PathBuf {
        self.dir.join("details.db")
    }
}
