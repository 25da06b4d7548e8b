//! Overwriting the old bytes of rows that were moved to another page.
//!
//! `secure_delete` overwrites a row when it is removed. But when SQLite moves rows to another page to make room,
//! it leaves their bytes in the old page, in the gap between the page's list of rows and the rows themselves.
//! Nothing reads these bytes, but they stay in the file and may belong to a person who is erased later.

use std::ops::Range;

use rusqlite::{Connection, Result};

use crate::{SqliteStore, connection, lookup_table};

/// Pages written in one transaction, so that other writers wait only briefly.
const CHUNK: usize = 500;

/// First bytes of pages that hold rows: of a table, of an index.
const LEAVES: [u8; 2] = [13, 10];

/// Overflow and free-list pages begin with the number of another page. In a file with fewer pages than this, the
/// first byte of that number is never one of [`LEAVES`].
const MAX_PAGES: u64 = 10 << 24;

impl SqliteStore {
    /// Overwrites what was removed from the details in lookup tables, and every gap in `details.db` that is not empty. If SQLite was built without the table
    /// `sqlite_dbpage`, rewrites the whole file instead, which takes longer.
    pub(crate) fn wipe_all_gaps(&self) -> Result<()> {
        lookup_table::wipe_removed(&self.dir)?;
        let reader = connection::reader(&self.details_file())?;
        if shows_pages(&reader)? { self.wipe_pages().map(|_| ()) } else { self.write_anew() }
    }

    fn write_anew(&self) -> Result<()> {
        connection::impatient_writer(&self.details_file())?.execute_batch("VACUUM")
    }

    /// Overwrites the gaps in place; returns how many there were.
    fn wipe_pages(&self) -> Result<u64> {
        let file = self.details_file();
        let found = find(&connection::reader(&file)?)?;
        let mut writer = connection::impatient_writer(&file)?;
        for pages in found.chunks(CHUNK) {
            let transaction = connection::write(&mut writer)?;
            pages.iter().try_for_each(|&page| wipe(&transaction, page))?;
            transaction.commit()?;
        }
        Ok(found.len() as u64)
    }
}

fn shows_pages(connection: &Connection) -> Result<bool> {
    connection.query_row("SELECT sqlite_compileoption_used('ENABLE_DBPAGE_VTAB')", (), |row| row.get(0))
}

/// Overwrites the gaps as part of the current transaction, if SQLite was built with the table `sqlite_dbpage`.
pub(crate) fn wipe_gaps(transaction: &Connection) -> Result<()> {
    if shows_pages(transaction)? {
        find(transaction)?.into_iter().try_for_each(|page| wipe(transaction, page))?;
    }
    Ok(())
}

/// The pages whose gaps are not empty.
fn find(reader: &Connection) -> Result<Vec<u32>> {
    let pages: u64 = reader.query_row("PRAGMA page_count", (), |row| row.get(0))?;
    if pages >= MAX_PAGES {
        return Err(rusqlite::Error::UserFunctionError("the store has too many pages to be checked".into()));
    }
    let mut read = reader.prepare("SELECT pgno, data FROM sqlite_dbpage")?;
    let mut rows = read.query(())?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let (number, page) = (row.get(0)?, row.get_ref(1)?.as_blob()?);
        if gap(number, page).is_some_and(|gap| page[gap].iter().any(|&byte| byte != 0)) {
            found.push(number);
        }
    }
    Ok(found)
}

fn wipe(writer: &Connection, number: u32) -> Result<()> {
    let mut read = writer.prepare_cached("SELECT data FROM sqlite_dbpage WHERE pgno = ?1")?;
    let mut page: Vec<u8> = read.query_row([number], |row| row.get(0))?;
    // The page may have changed since it was found.
    let Some(gap) = gap(number, &page) else { return Ok(()) };
    page[gap].fill(0);
    writer.prepare_cached("UPDATE sqlite_dbpage SET data = ?2 WHERE pgno = ?1")?.execute((number, page))?;
    Ok(())
}

/// The unused gap of a page that holds rows: between its list of rows and the first row.
fn gap(number: u32, page: &[u8]) -> Option<Range<usize>> {
    // The first page begins with the file header.
    let header = if number == 1 { 100 } else { 0 };
    let number_at = |at: usize| Some(usize::from(u16::from_be_bytes([*page.get(at)?, *page.get(at + 1)?])));
    if !LEAVES.contains(page.get(header)?) {
        return None;
    }
    let rows = number_at(header + 3)?;
    let end = match number_at(header + 5)? {
        0 => 65_536,
        end => end,
    };
    let start = header + 8 + 2 * rows;
    (start <= end && end <= page.len()).then_some(start..end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{now, put_all};
    use contactd_core::store::{DetailFilter, Details, Maintenance};
    use contactd_core::{ContactValue, Detail, Kind, Profile, Record};
    use std::path::Path;

    fn everything(store: &SqliteStore) -> Vec<(String, Vec<Detail>)> {
        let mut all = Vec::new();
        now(store.visit_all(&mut |profile, details| {
            all.push((profile.key().to_owned(), details));
            true
        }))
        .expect("reads");
        all
    }

    /// A store whose pages were split by later inserts.
    fn churned(dir: &Path) -> SqliteStore {
        let store = SqliteStore::open(dir).expect("opens");
        for (source, step) in [("a", 1), ("b", 2), ("c", 3)] {
            let record = |n: i32| {
                let value = ContactValue::from_store(format!("{source}{n}@example.com"));
                let profile = Profile::from_key(&format!("linkedin.com/in/moved-{n}"));
                Record { profile, details: vec![Detail::new(Kind::Email, value, source)] }
            };
            put_all(&store, (0..2_000).step_by(step).map(record).collect());
        }
        store
    }

    #[test]
    fn only_the_old_bytes_of_moved_rows_are_overwritten() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = churned(dir.path());
        let before = everything(&store);
        assert!(store.wipe_pages().expect("wipes") > 0, "rows were moved");
        assert_eq!(store.wipe_pages().expect("wipes"), 0);
        assert_eq!(everything(&store), before);
        assert_eq!(now(store.check()).expect("checks"), [""; 0]);
    }

    #[test]
    fn a_rewritten_file_does_not_contain_removed_values() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = churned(dir.path());
        let (before, gone) = (everything(&store), Profile::from_key("linkedin.com/in/moved-7"));
        now(store.remove_details(&gone, &DetailFilter::all(), None)).expect("removes");
        store.write_anew().expect("writes");
        assert!(now(store.flush_removed()).expect("empties the log"));
        let bytes = std::fs::read(dir.path().join("details.db")).expect("reads");
        assert!(!bytes.windows(14).any(|window| window == b"a7@example.com"));
        assert_eq!(everything(&store).len(), before.len() - 1);
    }
}
