//! Which details end next.

use std::collections::HashMap;
use std::time::Duration;

use contactd_core::store::SourceRetention;
use contactd_core::store::place::NEVER_OBSERVED;
use contactd_core::{Span, Timestamp};
use rusqlite::{Connection, Result};

/// Every source that holds details or has a maximum age, by name. Reads all details that can end.
pub(crate) fn list(details: &Connection, now: Timestamp) -> Result<Vec<SourceRetention>> {
    let mut sources = sources(details)?;
    let mut find = details.prepare(&format!(
        "SELECT source, expires_at, CASE WHEN observed_at <> {NEVER_OBSERVED} THEN observed_at * 1000
             ELSE (SELECT imported_at FROM imports WHERE imports.id = coalesce(said_by, import)) END
         FROM details
         WHERE expires_at IS NOT NULL OR source IN (SELECT id FROM sources WHERE max_age IS NOT NULL)"
    ))?;
    let mut rows = find.query(())?;
    while let Some(row) = rows.next()? {
        let Some(source) = sources.get_mut(&row.get(0)?) else { continue };
        let expires_at = row.get::<_, Option<i64>>(1)?.map(Timestamp::from_seconds);
        let known_at = row.get::<_, Option<i64>>(2)?.map(Timestamp::from_millis);
        source.add(expires_at, known_at, now);
    }
    let mut list: Vec<SourceRetention> = sources.into_values().collect();
    list.sort_by(|a, b| a.source.cmp(&b.source));
    Ok(list)
}

fn sources(details: &Connection) -> Result<HashMap<i64, SourceRetention>> {
    let mut list = details.prepare(
        "SELECT id, name, max_age, (SELECT coalesce(sum(count), 0) FROM totals WHERE totals.source = id) AS held
         FROM sources WHERE max_age IS NOT NULL OR held > 0",
    )?;
    let source = |row: &rusqlite::Row<'_>| {
        let max_age = row.get::<_, Option<u64>>(2)?.map(|seconds| Span(Duration::from_secs(seconds)));
        Ok((row.get(0)?, SourceRetention::new(row.get(1)?, max_age, row.get(3)?)))
    };
    list.query_map((), source)?.collect()
}
