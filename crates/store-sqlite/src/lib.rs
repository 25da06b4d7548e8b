//! How SQLite keeps it.
//!
//! Two files, because SQLite has one writer per file: `contactd.db` holds tokens, suppressions and usage, `details.db`
//! holds the records. A long import therefore never delays a revocation or an opt-out.
//!
//! Lookups read on the thread that serves them, each thread with a read-only connection of its own (`reader.rs`). They
//! never wait for a writer. Nor does whoever watches for changes: it has connections of its own (`changes.rs`), and every
//! write to `details.db` opens one for itself.

mod ahead;
mod audit;
mod changes;
mod connection;
mod details;
mod facts;
mod import;
mod local;
mod maintenance;
mod numbers;
mod place;
mod profile_rows;
mod reader;
mod schema;
mod suppressions;
mod sweep;
#[cfg(test)]
mod testing;
mod tokens;
mod totals;
mod usage;
mod wipe;
mod withdrawals;
mod writing;

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, MutexGuard, PoisonError};

use contactd_core::store::StoreError;
use rusqlite::{Connection, Transaction};
use thread_local::ThreadLocal;

use crate::changes::Watch;
use crate::reader::Reader;

pub use connection::WAL_LIMIT;

/// A data directory's databases.
pub struct SqliteStore {
    dir: PathBuf,
    /// `contactd.db`.
    main: Mutex<Connection>,
    watch: Mutex<Watch>,
    readers: ThreadLocal<Reader>,
    /// Goes up when readers have to renew what they see.
    generation: AtomicU64,
    /// `audit-index.db`, once it is needed.
    audit: Mutex<Option<Connection>>,
}

impl SqliteStore {
    /// Opens the databases in `dir`, which has to exist; creates or migrates them as needed.
    pub fn open(dir: &Path) -> Result<Self, StoreError> {
        let (main, details) = (dir.join("contactd.db"), dir.join("details.db"));
        let main_writer = schema::open(&main, schema::CONTACTD)?;
        // Opened so that it exists and has the newest schema.
        drop(schema::open(&details, schema::DETAILS)?);
        Ok(Self {
            dir: dir.to_owned(),
            main: Mutex::new(main_writer),
            watch: Mutex::new(Watch::open(&main, &details)?),
            readers: ThreadLocal::new(),
            generation: AtomicU64::new(0),
            audit: Mutex::default(),
        })
    }

    fn main(&self) -> MutexGuard<'_, Connection> {
        lock(&self.main)
    }

    /// Changes tokens or suppressions in one transaction, and the number by which others notice it.
    fn change_access<T>(
        &self,
        change: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let mut main = self.main();
        let transaction = connection::write(&mut main)?;
        let done = change(&transaction).map_err(connection::error)?;
        changes::count(&transaction).map_err(connection::error)?;
        transaction.commit().map_err(connection::error)?;
        Ok(done)
    }

    fn main_file(&self) -> PathBuf {
        self.dir.join("contactd.db")
    }

    fn details_file(&self) -> PathBuf {
        self.dir.join("details.db")
    }
}

/// A thread that panicked while writing left its transaction to be rolled back: the connection itself is good.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
