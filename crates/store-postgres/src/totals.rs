//! Totals of what is held, past imports, and which details end next.

use std::collections::HashMap;
use std::time::Duration;

use contactd_core::store::merge::Merging;
use contactd_core::store::place::{NEVER_OBSERVED, kind, label};
use contactd_core::store::{DetailTotal, ImportSummary, PastImport, SourceRetention, Totals};
use contactd_core::{Span, Timestamp};
use futures_util::StreamExt;
use tokio_postgres::Row;

use crate::database::Work;
use crate::failure::Tried;

pub(crate) async fn read(work: &Work) -> Tried<Totals> {
    let list =
        "SELECT sources.name, kind, label, count FROM totals JOIN sources ON sources.id = totals.source
                WHERE count > 0 ORDER BY sources.name, kind, label";
    let details = work.query(list, &[]).await?;
    let total = |row: &Row| DetailTotal {
        source: row.get(0),
        kind: kind(row.get::<_, i16>(1).into()),
        label: label(row.get::<_, i16>(2).into()),
        count: row.get::<_, i64>(3).cast_unsigned(),
    };
    let profiles: i64 = work.query_one("SELECT count FROM profile_total", &[]).await?.get(0);
    Ok(Totals {
        profiles: profiles.cast_unsigned(),
        details: details.iter().map(total).collect(),
        newest_import: imports(work, "ORDER BY id DESC LIMIT 1").await?.pop(),
    })
}

/// How many details a source holds.
pub(crate) async fn held_by(work: &Work, source: &str) -> Tried<u64> {
    let held = "SELECT coalesce(sum(count), 0)::bigint FROM totals JOIN sources ON sources.id = totals.source
                WHERE name = $1";
    let held = work.query_one(held, &[&source]).await?;
    Ok(held.get::<_, i64>(0).cast_unsigned())
}

/// The imports that the end of a statement selects, in its order.
pub(crate) async fn imports(work: &Work, which: &str) -> Tried<Vec<PastImport>> {
    let list = format!("SELECT * FROM imports {which}");
    let rows = work.query(&list, &[]).await?;
    rows.iter().map(past_import).collect()
}

fn past_import(row: &Row) -> Tried<PastImport> {
    let times = (row.get("imported_at"), row.get("undone_at"));
    Ok(PastImport::from_row(row.get("id"), times, row.get("is_kept"), row.get("summary"))?)
}

/// Records an import.
pub(crate) async fn add_import(
    work: &Work,
    merging: &Merging,
    at: Timestamp,
    summary: &ImportSummary,
) -> Tried<()> {
    let (at, summary) = (at.millis(), summary.to_json()?);
    let sources: Vec<i64> = merging.sources.iter().copied().collect();
    let add = "INSERT INTO imports (id, imported_at, is_kept, summary) VALUES ($1, $2, $3, $4)";
    work.execute(add, &[&merging.id, &at, &merging.keep_former, &summary]).await?;
    let add = "INSERT INTO import_sources SELECT $1, unnest($2::bigint[])";
    work.execute(add, &[&merging.id, &sources]).await?;
    Ok(())
}

/// Every source that holds details or has a maximum age, by name. Reads all details that can end.
pub(crate) async fn retention(work: &Work, now: Timestamp) -> Tried<Vec<SourceRetention>> {
    let mut sources = retained(work).await?;
    let find = format!(
        "SELECT source, expires_at, CASE WHEN observed_at <> {NEVER_OBSERVED} THEN observed_at * 1000
             ELSE (SELECT imported_at FROM imports WHERE imports.id = coalesce(said_by, import)) END
         FROM details
         WHERE expires_at IS NOT NULL OR source IN (SELECT id FROM sources WHERE max_age IS NOT NULL)"
    );
    let rows = work.query_raw(&find, std::iter::empty::<i64>()).await?;
    let mut rows = std::pin::pin!(rows);
    while let Some(row) = rows.next().await.transpose()? {
        let Some(source) = sources.get_mut(&row.get(0)) else { continue };
        let expires_at = row.get::<_, Option<i64>>(1).map(Timestamp::from_seconds);
        let known_at = row.get::<_, Option<i64>>(2).map(Timestamp::from_millis);
        source.add(expires_at, known_at, now);
    }
    let mut list: Vec<SourceRetention> = sources.into_values().collect();
    list.sort_by(|a, b| a.source.cmp(&b.source));
    Ok(list)
}

async fn retained(work: &Work) -> Tried<HashMap<i32, SourceRetention>> {
    let list = "SELECT * FROM (
                    SELECT id, name, max_age,
                        (SELECT coalesce(sum(count), 0)::bigint FROM totals WHERE totals.source = id) AS held
                    FROM sources
                ) AS all_sources WHERE max_age IS NOT NULL OR held > 0";
    let rows = work.query(list, &[]).await?;
    let source = |row: &Row| {
        let max_age: Option<i64> = row.get(2);
        let max_age = max_age.map(|seconds| Span(Duration::from_secs(seconds.cast_unsigned())));
        (row.get(0), SourceRetention::new(row.get(1), max_age, row.get::<_, i64>(3).cast_unsigned()))
    };
    Ok(rows.iter().map(source).collect())
}
