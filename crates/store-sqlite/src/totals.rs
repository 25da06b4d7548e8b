//! Totals of what is held, and past imports.

use contactd_core::Timestamp;
use contactd_core::store::place::{kind, label};
use contactd_core::store::{DetailTotal, ImportSummary, PastImport, PutCounts, Totals};
use rusqlite::{Connection, Row};

pub(crate) fn read(connection: &Connection) -> rusqlite::Result<Totals> {
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
        details: details.collect::<rusqlite::Result<_>>()?,
        newest_import: imports(connection, "ORDER BY id DESC LIMIT 1")?.pop(),
    })
}

pub(crate) fn imports(connection: &Connection, order: &str) -> rusqlite::Result<Vec<PastImport>> {
    let mut statement = connection.prepare(&format!("SELECT * FROM imports {order}"))?;
    statement.query_map((), past_import)?.collect()
}

fn past_import(row: &Row<'_>) -> rusqlite::Result<PastImport> {
    let summary = ImportSummary {
        source: row.get("source")?,
        actor: row.get("actor")?,
        files: serde_json::from_str(row.get_ref("files")?.as_str()?).unwrap_or_default(),
        rows: row.get("rows")?,
        rejected: row.get("rejected")?,
        suppressed: row.get("suppressed")?,
        counts: PutCounts {
            profiles_new: row.get("profiles_new")?,
            profiles_changed: row.get("profiles_changed")?,
            new: row.get("new")?,
            changed: row.get("changed")?,
            unchanged: row.get("unchanged")?,
            withdrawn: row.get("withdrawn")?,
            taken_back: 0,
            refused: 0,
        },
    };
    let undone_at: Option<i64> = row.get("undone_at")?;
    Ok(PastImport {
        id: row.get("id")?,
        at: Timestamp::from_millis(row.get("imported_at")?),
        summary,
        undone_at: undone_at.map(Timestamp::from_millis),
        is_kept: undone_at.is_none()
            && (row.get("is_kept")? || row.get::<_, u64>("changed")? + row.get::<_, u64>("withdrawn")? == 0),
    })
}
