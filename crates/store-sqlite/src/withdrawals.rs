//! Opt-outs and revocations of one data directory, to be applied to another made from an older backup.

use std::path::Path;

use contactd_core::store::{EntityTable, Stored, TakenOver, Withdrawals};
use contactd_core::{SubjectDigest, Timestamp};
use rusqlite::{Connection, Result, params};

use crate::suppressions::SUPPRESS;
use crate::{SqliteStore, connection, entity_rows};

impl SqliteStore {
    /// Reads the opt-outs and tokens of a data directory, even if its details are damaged. Changes nothing there.
    pub fn read_withdrawals(dir: &Path) -> Stored<Withdrawals> {
        connection::stored(|| {
            let main = connection::reader(&dir.join("contactd.db"))?;
            let [tokens, users, admin_tokens] = EntityTable::ALL.map(|table| entity_rows::list(&main, table));
            let rows = [tokens?, users?, admin_tokens?];
            Withdrawals::from_rows(suppressions(&main, "suppressions")?, rows).map_err(connection::refused)
        })
    }
}

pub(crate) fn suppressions(main: &Connection, table: &str) -> Result<Vec<(SubjectDigest, Timestamp)>> {
    let mut suppressions = main.prepare(&format!("SELECT key, digest, suppressed_at FROM {table}"))?;
    let rows = suppressions.query_map((), |row| {
        let digest = SubjectDigest { key: row.get(0)?, bytes: row.get(1)? };
        Ok((digest, Timestamp::from_millis(row.get(2)?)))
    })?;
    rows.collect()
}

pub(crate) fn take_over(main: &Connection, withdrawals: &Withdrawals, now: Timestamp) -> Result<TakenOver> {
    let mut taken = TakenOver::default();
    let mut suppress = main.prepare(SUPPRESS)?;
    for (subject, at) in &withdrawals.suppressions {
        taken.suppressions += suppress.execute(params![subject.bytes, subject.key, at.millis()])? as u64;
    }
    for table in EntityTable::ALL {
        let stored = withdrawals.decide(table, &entity_rows::list(main, table)?, now, &mut taken);
        entity_rows::put(main, table, &stored.map_err(connection::refused)?)?;
    }
    Ok(taken)
}
