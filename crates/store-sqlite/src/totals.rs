//! Totals of what is held, and past imports.

use contactd_core::store::place::{kind, label};
use contactd_core::store::{DetailTotal, PastImport, Totals};
use rusqlite::{Connection, Result, Row};

use crate::connection;

pub(crate) fn read(connection: &Connection) -> Result<Totals> {
    let mut statement = connection.prepare_cached(
        "SELECT sources.name, kind, label, count FROM totals JOIN sources ON sources.id = totals.source
         WHERE count > 0 ORDER BY sources.name, kind, label",
    )?;
    let details = statement.query_map((), |row| {
        Ok(DetailTotal {
            source: row.get(0)?,
            kind: kind(row.get(1)?),
            label: label(row.get(2)?),
            count: row.get(3)?,
        })
    })?;
    Ok(Totals {
        profiles: connection.query_row("SELECT count FROM profile_total", (), |row| row.get(0))?,
        details: details.collect::<Result<_>>()?,
        newest_import: imports(connection, "ORDER BY id DESC LIMIT 1")?.pop(),
    })
}

/// The imports that the end of a statement selects, in its order.
pub(crate) fn imports(connection: &Connection, which: &str) -> Result<Vec<PastImport>> {
    let mut statement = connection.prepare(&format!("SELECT * FROM imports {which}"))?;
    statement.query_map((), past_import)?.collect()
}

fn past_import(row: &Row<'_>) -> Result<PastImport> {
    let times = (row.get("imported_at")?, row.get("undone_at")?);
    let summary = row.get_ref("summary")?.as_str()?;
    PastImport::from_row(row.get("id")?, times, row.get("is_kept")?, summary).map_err(connection::refused)
}
