//! The outbox. Both databases have one, because an entry is stored in the transaction of its change.

use async_trait::async_trait;
use contactd_core::AdminEntry;
use contactd_core::store::{Outbox, StoreError, Stored};
use rusqlite::{Connection, Result, Row};

use crate::{SqliteStore, connection};

/// An entry as both databases and the index keep it.
pub(crate) fn to_text(entry: &AdminEntry) -> Result<String> {
    serde_json::to_string(entry).map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))
}

/// The entry in a column of a row.
pub(crate) fn from_text(row: &Row<'_>, column: usize) -> Result<AdminEntry> {
    let text = row.get_ref(column)?.as_str()?;
    serde_json::from_str(text).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, Box::new(error))
    })
}

/// Adds an entry, with the counts of its change, in the transaction of the change. Fails if it is not there afterwards.
pub(crate) fn add(connection: &Connection, entry: Option<&AdminEntry>, counts: &[(&str, u64)]) -> Result<()> {
    let Some(entry) = entry else { return Ok(()) };
    let text = to_text(&entry.counted(counts))?;
    let mut insert = connection.prepare_cached("INSERT INTO outbox (entry, record) VALUES (?1, ?2)")?;
    insert.execute((&entry.entry, &text))?;
    let find = "SELECT EXISTS (SELECT 1 FROM outbox WHERE entry = ?1 AND record = ?2)";
    match connection.prepare_cached(find)?.query_row((&entry.entry, &text), |row| row.get(0))? {
        true => Ok(()),
        false => Err(rusqlite::Error::UserFunctionError(Box::new(StoreError::NotNoted))),
    }
}

#[async_trait]
impl Outbox for SqliteStore {
    async fn add_entry(&self, entry: &AdminEntry) -> Stored<()> {
        self.with_main(|main| add(main, Some(entry), &[]))
    }

    async fn list_entries(&self) -> Stored<Vec<AdminEntry>> {
        let mut entries = self.with_main(list)?;
        entries.extend(self.read_details(list)?);
        entries.sort_by_key(|entry| entry.time);
        Ok(entries)
    }

    async fn remove_entries(&self, ids: &[String]) -> Stored<()> {
        let remove = |connection: &Connection| -> Result<()> {
            let mut remove = connection.prepare_cached("DELETE FROM outbox WHERE entry = ?1")?;
            ids.iter().try_for_each(|id| remove.execute([id]).map(|_| ()))
        };
        self.with_main(remove)?;
        let is_there = "SELECT EXISTS (SELECT 1 FROM outbox)";
        if self.read_details(|details| details.query_row(is_there, (), |row| row.get(0)))? {
            connection::run_blocking(|| {
                let mut writer = connection::impatient_writer(&self.details_file())?;
                let transaction = connection::write(&mut writer)?;
                remove(&transaction)?;
                transaction.commit()?;
                // What an import wrote was emptied from the log before; this must not leave something in it again.
                let _ = connection::empty_wal(&writer);
                Ok(())
            })?;
        }
        Ok(())
    }
}

fn list(connection: &Connection) -> Result<Vec<AdminEntry>> {
    let mut list = connection.prepare_cached("SELECT record FROM outbox ORDER BY id")?;
    list.query_map((), |row| from_text(row, 0))?.collect()
}
