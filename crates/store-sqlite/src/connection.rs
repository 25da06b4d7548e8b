//! Opening connections, and converting SQLite's errors.

use std::path::Path;
use std::time::Duration;

use contactd_core::blocking;
use contactd_core::store::{StoreError, Stored};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, Result, Transaction, TransactionBehavior, ffi};

/// A write-ahead log larger than this is emptied, in bytes.
pub const WAL_LIMIT: u64 = 1 << 20;

const BUSY: Duration = Duration::from_secs(10);
/// How long a writer of details waits for another one before it reports that the store is busy.
const WRITE_TIMEOUT: Duration = Duration::from_millis(500);
/// How long a lookup waits for a lock. Readers wait for no writer, only while another process repairs a log, or locks the files.
const LOOKUP_TIMEOUT: Duration = Duration::from_millis(20);
/// How long emptying a log waits for readers, which renew their snapshot every 100 ms.
const CHECKPOINT_BUSY: Duration = Duration::from_millis(300);

/// A connection that writes. Everything it commits is synced.
pub(crate) fn writer(file: &Path) -> Result<Connection> {
    let connection = Connection::open(file)?;
    connection.busy_timeout(BUSY)?;
    connection.execute_batch(
        "PRAGMA journal_mode = WAL;
             PRAGMA synchronous = FULL;
             PRAGMA secure_delete = ON;
             PRAGMA temp_store = MEMORY;
             PRAGMA foreign_keys = ON;",
    )?;
    prepare_once(&connection)?;
    Ok(connection)
}

/// A connection that writes and waits only briefly for another writer, then fails with [`StoreError::Busy`].
pub(crate) fn impatient_writer(file: &Path) -> Result<Connection> {
    let connection = writer(file)?;
    connection.busy_timeout(WRITE_TIMEOUT)?;
    Ok(connection)
}

/// Keeps the plans of prepared statements. Without this, SQLite built with STAT4 plans a statement again
/// whenever a value is bound to it, which costs several times the read itself.
fn prepare_once(connection: &Connection) -> Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.set_prepared_statement_cache_capacity(32);
    Ok(())
}

/// A connection that reads, on one thread. Nothing is mapped into memory: where a file is mapped, a read error, or a file
/// that somebody truncates, ends the process instead of one lookup.
pub(crate) fn reader(file: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(file, flags)?;
    connection.busy_timeout(BUSY)?;
    connection.execute_batch(
        "PRAGMA query_only = ON;
             PRAGMA temp_store = MEMORY;
             PRAGMA mmap_size = 0;
             PRAGMA cache_size = -8192;",
    )?;
    prepare_once(&connection)?;
    Ok(connection)
}

/// A connection for lookups: it waits only briefly, because other lookups wait meanwhile.
pub(crate) fn lookup_reader(file: &Path) -> Result<Connection> {
    let connection = reader(file)?;
    connection.busy_timeout(LOOKUP_TIMEOUT)?;
    Ok(connection)
}

/// A connection that reads and can sort more than fits into memory. It sorts in unnamed temporary files in the
/// directory of the database, which are as private as the database.
pub(crate) fn sorting_reader(file: &Path) -> Result<Connection> {
    let connection = reader(file)?;
    let dir = file.parent().unwrap_or(Path::new(".")).to_string_lossy().replace('\'', "''");
    connection.execute_batch(&format!("PRAGMA temp_store = FILE; PRAGMA temp_store_directory = '{dir}'"))?;
    Ok(connection)
}

/// A transaction that takes the write lock when it begins, so that another writer cannot make it fail
/// halfway.
pub(crate) fn write(connection: &mut Connection) -> Result<Transaction<'_>> {
    connection.transaction_with_behavior(TransactionBehavior::Immediate)
}

/// Empties the write-ahead log. Returns false if readers or writers prevented it.
pub(crate) fn empty_wal(connection: &Connection) -> Result<bool> {
    connection.busy_timeout(CHECKPOINT_BUSY)?;
    let was_busy = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |row| row.get::<_, bool>(0));
    connection.busy_timeout(BUSY)?;
    match was_busy {
        Ok(was_busy) => Ok(!was_busy),
        Err(error) if is_busy(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

pub(crate) fn wal_bytes(database: &Path) -> u64 {
    let mut wal = database.as_os_str().to_owned();
    wal.push("-wal");
    Path::new(&wal).metadata().map_or(0, |metadata| metadata.len())
}

/// Converts an error of SQLite. Its text names tables and files, never the content of a row.
pub(crate) fn error(error: rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        _ if is_busy(&error) => StoreError::Busy,
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
            StoreError::Engine("its files cannot be written; run this as the user who owns them".to_owned())
        }
        Some(ErrorCode::CannotOpen) => StoreError::Unavailable(
            "its files cannot be opened; check that the directory exists and that this user may write to it"
                .to_owned(),
        ),
        Some(ErrorCode::DiskFull) => StoreError::Unavailable(
            "the disk of the data directory on this machine is full: make room there. A server then goes on by itself; a command has to be \
             run again"
                .to_owned(),
        ),
        Some(ErrorCode::SystemIoFailure) => StoreError::Unavailable(
            "a file of it cannot be read or written (disk I/O error); look at the system's log and check the disk"
                .to_owned(),
        ),
        Some(ErrorCode::OutOfMemory) => StoreError::Unavailable("there is not enough memory".to_owned()),
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => StoreError::Damaged(
            "a database file is damaged; restore the data directory from a backup".to_owned(),
        ),
        Some(code) => match error {
            rusqlite::Error::SqliteFailure(_, Some(message)) => StoreError::Engine(message),
            _ => StoreError::Engine(format!("SQLite reports {code:?}")),
        },
        None => StoreError::Engine(match error {
            rusqlite::Error::UserFunctionError(what) => match what.downcast() {
                Ok(refused) => return *refused,
                Err(what) => what.to_string(),
            },
            rusqlite::Error::InvalidColumnType(_, column, _) => format!("column {column} has the wrong type"),
            _ => "SQLite could not run a statement".to_owned(),
        }),
    }
}

/// A row that cannot have been stored as it is.
pub(crate) fn damaged() -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_CORRUPT), None)
}

/// Ends a transaction for another reason than one of SQLite, which [`error`] returns.
pub(crate) fn refused(why: StoreError) -> rusqlite::Error {
    rusqlite::Error::UserFunctionError(Box::new(why))
}

/// Whether somebody else holds a lock.
fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// The result of something, with its error converted.
pub(crate) fn stored<T>(run: impl FnOnce() -> Result<T>) -> Stored<T> {
    run().map_err(error)
}

/// Does something that blocks, and converts its error.
pub(crate) fn run_blocking<T>(run: impl FnOnce() -> Result<T>) -> Stored<T> {
    blocking(|| stored(run))
}
