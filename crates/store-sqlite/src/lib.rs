//! How SQLite keeps it.
//!
//! Two files, because SQLite has one writer per file: `contactd.db` holds tokens,
//! suppressions and usage, `details.db` holds the records. A long import therefore never
//! delays a revocation or an opt-out.
//!
//! Lookups read on the thread that serves them, each thread with a read-only connection of
//! its own (`reader.rs`). They never wait for a writer.

mod ahead;
mod audit;
mod connection;
mod details;
mod held;
mod import;
mod place;
mod reader;
mod schema;
mod suppressions;
mod sweep;
#[cfg(test)]
mod testing;
mod tokens;
mod usage;
mod wipe;
mod withdrawals;
mod writing;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use contactd_core::store::StoreError;
use rusqlite::Connection;
use thread_local::ThreadLocal;

use crate::reader::Reader;

pub use connection::WAL_LIMIT;
pub use withdrawals::{TakenOver, Withdrawals};

/// How long readers are waited for until nothing that was removed is in a log any more.
const SCRUB_PATIENCE: Duration = Duration::from_secs(10);

/// A data directory's databases.
pub struct SqliteStore {
    dir: PathBuf,
    /// `contactd.db`.
    main: Mutex<Connection>,
    /// Writes to `details.db`, and notices the writes of others.
    details: Mutex<Connection>,
    readers: ThreadLocal<Reader>,
    /// Goes up when readers have to renew what they see.
    generation: AtomicU64,
    seen: Mutex<DataVersions>,
    /// `audit-index.db`, once it is needed.
    audit: Mutex<Option<Connection>>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct DataVersions {
    main: i64,
    details: i64,
}

/// What other processes have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changes {
    /// Tokens or suppressions.
    pub main: bool,
    /// Details.
    pub details: bool,
}

impl SqliteStore {
    /// Opens the databases in `dir`, which has to exist; makes or migrates them as needed.
    pub fn open(dir: &Path) -> Result<Self, StoreError> {
        let store = Self {
            dir: dir.to_owned(),
            main: Mutex::new(schema::open(&dir.join("contactd.db"), schema::CONTACTD)?),
            details: Mutex::new(schema::open(&dir.join("details.db"), schema::DETAILS)?),
            readers: ThreadLocal::new(),
            generation: AtomicU64::new(0),
            seen: Mutex::default(),
            audit: Mutex::default(),
        };
        store.changes()?;
        Ok(store)
    }

    /// What other processes have committed since this was last asked. Readers are made to
    /// see it.
    pub fn changes(&self) -> Result<Changes, StoreError> {
        let now = DataVersions {
            main: connection::data_version(&self.main())?,
            details: connection::data_version(&self.details())?,
        };
        let before = std::mem::replace(&mut *lock(&self.seen), now);
        let changes = Changes { main: now.main != before.main, details: now.details != before.details };
        if changes.details {
            self.renew_readers();
        }
        Ok(changes)
    }

    /// Every lookup that begins after this sees what is committed now.
    pub fn renew_readers(&self) {
        self.generation.fetch_add(1, Ordering::SeqCst);
    }

    /// Moves what the write-ahead logs hold into the databases and empties the logs, where
    /// they have grown past [`WAL_LIMIT`]. Waits for readers a moment at the most, and holds up
    /// nobody who uses this store: it has connections of its own.
    pub fn checkpoint(&self) -> Result<(), StoreError> {
        for file in ["contactd.db", "details.db"] {
            let file = self.dir.join(file);
            if connection::wal_bytes(&file) > WAL_LIMIT {
                connection::truncate_wal(&connection::writer(&file)?)?;
            }
        }
        Ok(())
    }

    /// Empties the write-ahead logs, so that nothing stands in them that has been removed. Waits for readers for some
    /// seconds; says whether it was done.
    pub fn scrub(&self) -> Result<bool, StoreError> {
        let until = Instant::now() + SCRUB_PATIENCE;
        for file in ["details.db", "contactd.db"] {
            let writer = connection::writer(&self.dir.join(file))?;
            while !connection::empty_wal(&writer)? {
                if Instant::now() > until {
                    return Ok(false);
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        Ok(true)
    }

    /// Bytes of each file, write-ahead logs included.
    pub fn file_sizes(&self) -> Vec<(String, u64)> {
        [
            "contactd.db",
            "contactd.db-wal",
            "details.db",
            "details.db-wal",
            "audit-index.db",
            "audit-index.db-wal",
        ]
        .into_iter()
        .filter_map(|name| Some((name.to_owned(), self.dir.join(name).metadata().ok()?.len())))
        .collect()
    }

    /// Asks SQLite to check both files; what is wrong, in its words.
    pub fn integrity(&self) -> Result<Vec<String>, StoreError> {
        let mut wrong = Vec::new();
        for (file, connection) in [("contactd.db", &self.main), ("details.db", &self.details)] {
            let connection = lock(connection);
            let mut check = connection.prepare("PRAGMA quick_check(10)").map_err(connection::error)?;
            let rows = check.query_map((), |row| row.get::<_, String>(0)).map_err(connection::error)?;
            for line in rows {
                let line = line.map_err(connection::error)?;
                if line != "ok" {
                    wrong.push(format!("{file}: {line}"));
                }
            }
        }
        Ok(wrong)
    }

    /// Writes whole and compact copies of both databases into `dir`, each as it was at one moment, while
    /// others read and write. The details come first: opt-outs are then at least as new as they are.
    pub fn copy_to(&self, dir: &Path) -> Result<Vec<&'static str>, StoreError> {
        let names = ["details.db", "contactd.db"];
        for name in names {
            let copy = dir.join(name);
            connection::writer(&self.dir.join(name))?
                .execute("VACUUM INTO ?1", [copy.to_string_lossy()])
                .map_err(connection::error)?;
        }
        Ok(names.to_vec())
    }

    /// A remembered fact about the store itself.
    pub fn fact(&self, name: &str) -> Result<Option<String>, StoreError> {
        use rusqlite::OptionalExtension;
        self.main()
            .query_row("SELECT value FROM facts WHERE name = ?1", [name], |row| row.get(0))
            .optional()
            .map_err(connection::error)
    }

    /// Remembers a fact, unless one of that name is there already.
    pub fn remember(&self, name: &str, value: &str) -> Result<(), StoreError> {
        self.main()
            .execute("INSERT OR IGNORE INTO facts VALUES (?1, ?2)", [name, value])
            .map(|_| ())
            .map_err(connection::error)
    }

    /// Forgets a fact.
    pub fn forget(&self, name: &str) -> Result<(), StoreError> {
        let forgotten = self.main().execute("DELETE FROM facts WHERE name = ?1", [name]);
        forgotten.map(|_| ()).map_err(connection::error)
    }

    fn main(&self) -> MutexGuard<'_, Connection> {
        lock(&self.main)
    }

    fn details(&self) -> MutexGuard<'_, Connection> {
        lock(&self.details)
    }

    fn details_file(&self) -> PathBuf {
        self.dir.join("details.db")
    }
}

/// A thread that panicked while writing left its transaction to be rolled back: the
/// connection itself is good.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
