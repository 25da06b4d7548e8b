//! Maintenance of the files.

use std::path::Path;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use contactd_core::Timestamp;
use contactd_core::blocking;
use contactd_core::store::{Maintenance, PartSize, Stored, TakenOver, Withdrawals};
use rusqlite::Result;

use crate::{SqliteStore, WAL_LIMIT, connection, withdrawals};

/// How long to wait for readers before giving up on emptying the logs.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(10);

#[async_trait]
impl Maintenance for SqliteStore {
    async fn tidy(&self) -> Stored<()> {
        connection::run_blocking(|| {
            self.shorten_logs()?;
            self.lookup_table.maintain()
        })
    }

    async fn flush_removed(&self) -> Stored<bool> {
        connection::run_blocking(|| self.empty_logs())
    }

    async fn wipe_removed(&self) -> Stored<()> {
        connection::run_blocking(|| self.wipe_all_gaps())
    }

    async fn check(&self) -> Stored<Vec<String>> {
        connection::run_blocking(|| self.quick_check())
    }

    async fn sizes(&self) -> Stored<Vec<PartSize>> {
        blocking(|| {
            let files = [
                "contactd.db",
                "contactd.db-wal",
                "details.db",
                "details.db-wal",
                "audit-index.db",
                "audit-index.db-wal",
            ];
            let size = |name: &str| {
                Some(PartSize { name: name.to_owned(), bytes: self.dir.join(name).metadata().ok()?.len() })
            };
            let tables =
                PartSize { name: "lookup table".to_owned(), bytes: self.lookup_table.bytes_on_disk() };
            Ok(files.into_iter().filter_map(size).chain([tables]).collect())
        })
    }

    async fn copy_to(&self, dir: &Path) -> Stored<Vec<String>> {
        connection::run_blocking(|| self.copy_files(dir))
    }

    async fn take_over(&self, withdrawals: &Withdrawals, at: Timestamp) -> Stored<TakenOver> {
        self.change_access(|transaction| withdrawals::take_over(transaction, withdrawals, at))
    }
}

impl SqliteStore {
    /// Empties the write-ahead logs that are larger than [`WAL_LIMIT`], on its own connections.
    fn shorten_logs(&self) -> Result<()> {
        for file in [self.main_file(), self.details_file()] {
            if connection::wal_bytes(&file) > WAL_LIMIT {
                connection::empty_wal(&connection::writer(&file)?)?;
            }
        }
        Ok(())
    }

    /// Empties the write-ahead logs, so that they hold no removed data. Returns false if readers prevented it.
    fn empty_logs(&self) -> Result<bool> {
        let until = Instant::now() + FLUSH_TIMEOUT;
        for file in [self.details_file(), self.main_file()] {
            let writer = connection::writer(&file)?;
            while !connection::empty_wal(&writer)? {
                if Instant::now() > until {
                    return Ok(false);
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        Ok(true)
    }

    fn quick_check(&self) -> Result<Vec<String>> {
        let mut wrong = Vec::new();
        for name in ["contactd.db", "details.db"] {
            let reader = connection::reader(&self.dir.join(name))?;
            let mut check = reader.prepare("PRAGMA quick_check(10)")?;
            let rows = check.query_map((), |row| row.get::<_, String>(0))?;
            for line in rows {
                let line = line?;
                if line != "ok" {
                    wrong.push(format!("{name}: {line}"));
                }
            }
        }
        Ok(wrong)
    }

    /// Writes complete, compacted copies of both databases, details first: so the opt-outs are at least as new.
    fn copy_files(&self, dir: &Path) -> Result<Vec<String>> {
        let names = ["details.db", "contactd.db"];
        for name in names {
            let copy = dir.join(name);
            connection::writer(&self.dir.join(name))?.execute("VACUUM INTO ?1", [copy.to_string_lossy()])?;
        }
        Ok(names.map(str::to_owned).to_vec())
    }
}
