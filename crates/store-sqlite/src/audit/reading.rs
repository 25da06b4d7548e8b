//! Reading lines of the index.

use contactd_core::store::{AuditFilter, AuditUsage, IndexedLine};
use contactd_core::{AdminRecord, AuditOutcome, AuditRecord, ShortDigest, Timestamp, hex};
use rusqlite::{Connection, Row};

use super::names::find_name;
use crate::numbers::kind;
use crate::outbox;

const EVENTS: &str = "SELECT seq, at, node.name, request_id, token.name, operation, outcome, reason.name, digest.name, profile,
    given_id, value, count
    FROM events JOIN names AS node ON node.id = events.node JOIN names AS token ON token.id = events.token
    LEFT JOIN names AS reason ON reason.id = events.reason LEFT JOIN names AS digest ON digest.id = events.digest_key";

pub(super) fn visit_events(
    connection: &Connection,
    filter: &AuditFilter,
    mut visit: impl FnMut(AuditRecord) -> bool,
) -> rusqlite::Result<()> {
    let mut clauses = vec!["at >= ?1 AND at < ?2".to_owned()];
    let numbers = |ids: Vec<i64>| ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    if let Some(tokens) = &filter.tokens {
        let mut ids = Vec::new();
        for token in tokens {
            ids.extend(find_name(connection, token)?);
        }
        clauses.push(format!("events.token IN ({})", numbers(ids)));
    }
    if let Some(outcome) = &filter.outcome {
        let Some(number) = AuditOutcome::number(outcome) else { return Ok(()) };
        clauses.push(format!("outcome = {number}"));
    }
    let digests = |digests: &[ShortDigest]| {
        digests.iter().map(|digest| format!("x'{}'", hex::encode(&digest.0))).collect::<Vec<_>>().join(", ")
    };
    if let Some(profiles) = &filter.profiles {
        clauses.push(format!("profile IN ({})", digests(profiles)));
    }
    if let Some(values) = &filter.values {
        clauses.push(format!("value IN ({})", digests(values)));
    }
    let request = filter.request.as_ref().map(|(id, given)| {
        clauses.push(format!("(request_id = ?3 OR given_id IN ({}))", digests(given)));
        id.as_str()
    });
    let mut statement =
        connection.prepare(&format!("{EVENTS} WHERE {} ORDER BY events.node, seq", clauses.join(" AND ")))?;
    let time = |at: Option<Timestamp>, other| at.map_or(other, Timestamp::millis);
    let (since, until) = (time(filter.since, i64::MIN), time(filter.until, i64::MAX));
    let mut rows = match request {
        Some(id) => statement.query((since, until, id))?,
        None => statement.query((since, until))?,
    };
    while let Some(row) = rows.next()? {
        if !visit(record(row)?) {
            break;
        }
    }
    Ok(())
}

fn record(row: &Row<'_>) -> rusqlite::Result<AuditRecord> {
    let outcome: usize = row.get(6)?;
    let profile: Option<[u8; 16]> = row.get(9)?;
    let key: Option<String> = row.get(8)?;
    Ok(AuditRecord {
        seq: row.get(0)?,
        at: Timestamp::from_millis(row.get(1)?),
        node: row.get(2)?,
        request_id: row.get(3)?,
        token: row.get(4)?,
        operation: kind(row.get(5)?),
        outcome: AuditOutcome::NAMES.get(outcome).copied().unwrap_or("refused").to_owned(),
        reason: row.get(7)?,
        profile: key.zip(profile.map(ShortDigest)),
        given_id: row.get::<_, Option<[u8; 16]>>(10)?.map(ShortDigest),
        value: row.get::<_, Option<[u8; 16]>>(11)?.map(ShortDigest),
        count: row.get(12)?,
    })
}

pub(super) const ADMIN: &str = "SELECT seq, node.name, record FROM admin_events
    JOIN names AS node ON node.id = admin_events.node";

pub(super) fn admin_record(row: &Row<'_>) -> rusqlite::Result<AdminRecord> {
    Ok(AdminRecord { seq: row.get(0)?, node: row.get(1)?, entry: outbox::from_text(row, 2)? })
}

pub(super) fn indexed(
    index: &Connection,
    node: &str,
    from: u64,
    through: u64,
) -> rusqlite::Result<Vec<IndexedLine>> {
    let node = find_name(index, node)?.unwrap_or(0);
    let range = (node, i64::try_from(from).unwrap_or(i64::MAX), i64::try_from(through).unwrap_or(i64::MAX));
    let of =
        |table: &str, columns: &str| format!("{columns} WHERE {table}.node = ?1 AND seq BETWEEN ?2 AND ?3");
    let mut requests = index.prepare_cached(&of("events", EVENTS))?;
    let mut lines: Vec<IndexedLine> = requests
        .query_map(range, |row| record(row).map(IndexedLine::Request))?
        .collect::<rusqlite::Result<_>>()?;
    let mut admin = index.prepare_cached(&of("admin_events", ADMIN))?;
    for record in admin.query_map(range, admin_record)? {
        lines.push(IndexedLine::Admin(record?));
    }
    lines.sort_by_key(IndexedLine::seq);
    Ok(lines)
}

/// Usage on one node, or on all together.
pub(super) fn usage(connection: &Connection, node: Option<i64>) -> rusqlite::Result<Vec<AuditUsage>> {
    let mut statement = connection.prepare(
        "SELECT names.name, day, sum(hits), sum(misses), sum(refused) FROM usage JOIN names ON names.id = usage.token
         WHERE ?1 IS NULL OR node = ?1
         GROUP BY day, names.name ORDER BY day, names.name",
    )?;
    let rows = statement.query_map([node], |row| {
        Ok(AuditUsage {
            token: row.get(0)?,
            day: row.get(1)?,
            hits: row.get(2)?,
            misses: row.get(3)?,
            refused: row.get(4)?,
        })
    })?;
    rows.collect()
}
