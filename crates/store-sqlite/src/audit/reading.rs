//! Reading lines of the index.

use contactd_core::store::{AuditFilter, AuditUsage, IndexedLine, RequestFilter};
use contactd_core::{AdminRecord, Asked, AuditOutcome, AuditRecord, RequestVia, ShortDigest, Timestamp, hex};
use rusqlite::{Connection, Result, Row};

use crate::ids::find_id;
use crate::outbox;

const EVENTS: &str = "SELECT seq, at, node.name, request_id, token.name, operation, outcome, reason.name, digest.name, profile,
    given_id, value, count, place, via
    FROM events JOIN names AS node ON node.id = events.node JOIN names AS token ON token.id = events.token
    LEFT JOIN names AS reason ON reason.id = events.reason LEFT JOIN names AS digest ON digest.id = events.digest_key";

/// Newest first. The indexes by time have the lines in this order, also those with the same time.
const NEWEST_FIRST: &str = "ORDER BY at DESC, node DESC, seq DESC";

/// Visits the lines that match, newest first.
pub(super) fn visit_newest(
    index: &Connection,
    filter: &AuditFilter,
    mut visit: impl FnMut(IndexedLine) -> bool,
) -> Result<()> {
    let time = |at: Option<Timestamp>, other| at.map_or(other, Timestamp::millis);
    let (since, until) = (time(filter.since, i64::MIN), time(filter.until, i64::MAX));
    let most = filter.newest.and_then(|most| i64::try_from(most).ok()).unwrap_or(i64::MAX);
    let id = filter.requests.as_ref().and_then(|filter| filter.request.as_ref()).map(|(id, _)| id);
    let mut requests = index.prepare(&requests(index, filter)?)?;
    let mut requests = requests.query((since, until, id, most))?;
    let mut actions = index.prepare(&actions(filter))?;
    let mut actions = actions.query((since, until))?;
    let mut next_request = || requests.next()?.map(|row| record(row).map(IndexedLine::Request)).transpose();
    let mut next_action = || {
        while let Some(row) = actions.next()? {
            let line = IndexedLine::Admin(admin_record(row)?);
            if filter.matches(&line) {
                return Ok(Some(line));
            }
        }
        Ok::<_, rusqlite::Error>(None)
    };
    let key = |line: &Option<IndexedLine>| line.as_ref().map(|line| (line.at(), line.seq()));
    let (mut request, mut action) = (next_request()?, next_action()?);
    for _ in 0..most {
        // No line is less than any.
        let newest = if key(&request) > key(&action) {
            std::mem::replace(&mut request, next_request()?)
        } else {
            std::mem::replace(&mut action, next_action()?)
        };
        if !newest.is_some_and(&mut visit) {
            break;
        }
    }
    Ok(())
}

/// Selects the requests that match. ?1 and ?2 are the times, ?3 is the id of a request, ?4 is how many.
fn requests(index: &Connection, filter: &AuditFilter) -> Result<String> {
    let clauses = match &filter.requests {
        Some(requests) => clauses(index, requests)?,
        None => None,
    };
    let clauses = clauses.unwrap_or_else(|| "false".to_owned());
    Ok(format!("{EVENTS} WHERE at >= ?1 AND at < ?2 AND {clauses} {NEWEST_FIRST} LIMIT ?4"))
}

/// Selects actions between the times ?1 and ?2. Whether they match is known only after they are parsed.
fn actions(filter: &AuditFilter) -> String {
    format!("{ADMIN} WHERE at >= ?1 AND at < ?2 AND {} {NEWEST_FIRST}", filter.actions.is_some())
}

/// The conditions for requests; `None` if none can match. ?3 is the id of a request.
fn clauses(index: &Connection, filter: &RequestFilter) -> Result<Option<String>> {
    let mut clauses = vec!["true".to_owned()];
    let numbers = |ids: Vec<i64>| ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    if let Some(tokens) = &filter.tokens {
        let mut ids = Vec::new();
        for token in tokens {
            ids.extend(find_id(index, "names", token)?);
        }
        clauses.push(format!("events.token IN ({})", numbers(ids)));
    }
    if let Some(outcome) = &filter.outcome {
        let Some(number) = AuditOutcome::number(outcome) else { return Ok(None) };
        clauses.push(format!("outcome = {number}"));
    }
    if let Some(operation) = filter.operation {
        clauses.push(format!("operation = {}", operation.number()));
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
    if let Some((_, given)) = &filter.request {
        clauses.push(format!("(request_id = ?3 OR given_id IN ({}))", digests(given)));
    }
    Ok(Some(clauses.join(" AND ")))
}

fn record(row: &Row<'_>) -> Result<AuditRecord> {
    let outcome: usize = row.get(6)?;
    let profile: Option<[u8; 16]> = row.get(9)?;
    let key: Option<String> = row.get(8)?;
    Ok(AuditRecord {
        seq: row.get(0)?,
        at: Timestamp::from_millis(row.get(1)?),
        node: row.get(2)?,
        request_id: row.get(3)?,
        token: row.get(4)?,
        operation: Asked::numbered(row.get(5)?),
        outcome: AuditOutcome::NAMES.get(outcome).copied().unwrap_or("refused").to_owned(),
        reason: row.get(7)?,
        profile: key.zip(profile.map(ShortDigest)),
        given_id: row.get::<_, Option<[u8; 16]>>(10)?.map(ShortDigest),
        value: row.get::<_, Option<[u8; 16]>>(11)?.map(ShortDigest),
        count: row.get(12)?,
        place: row.get(13)?,
        via: row.get::<_, Option<String>>(14)?.as_deref().and_then(RequestVia::named),
    })
}

const ADMIN: &str = "SELECT seq, node.name, record FROM admin_events
    JOIN names AS node ON node.id = admin_events.node";

fn admin_record(row: &Row<'_>) -> Result<AdminRecord> {
    Ok(AdminRecord { seq: row.get(0)?, node: row.get(1)?, entry: outbox::from_text(row, 2)? })
}

pub(super) fn indexed(index: &Connection, node: &str, from: u64, through: u64) -> Result<Vec<IndexedLine>> {
    let node = find_id(index, "names", node)?.unwrap_or(0);
    let range = (node, i64::try_from(from).unwrap_or(i64::MAX), i64::try_from(through).unwrap_or(i64::MAX));
    let of =
        |table: &str, columns: &str| format!("{columns} WHERE {table}.node = ?1 AND seq BETWEEN ?2 AND ?3");
    let mut requests = index.prepare_cached(&of("events", EVENTS))?;
    let mut lines: Vec<IndexedLine> =
        requests.query_map(range, |row| record(row).map(IndexedLine::Request))?.collect::<Result<_>>()?;
    let mut admin = index.prepare_cached(&of("admin_events", ADMIN))?;
    for record in admin.query_map(range, admin_record)? {
        lines.push(IndexedLine::Admin(record?));
    }
    lines.sort_by_key(IndexedLine::seq);
    Ok(lines)
}

/// Usage on one node, or on all together, from a day on.
pub(super) fn usage(connection: &Connection, node: Option<i64>, since: i64) -> Result<Vec<AuditUsage>> {
    let mut statement = connection.prepare(
        "SELECT names.name, day, sum(hits), sum(misses), sum(refused) FROM usage JOIN names ON names.id = usage.token
         WHERE (?1 IS NULL OR node = ?1) AND day >= ?2
         GROUP BY day, names.name ORDER BY day, names.name",
    )?;
    let rows = statement.query_map((node, since), |row| {
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

#[cfg(test)]
mod tests {
    use super::*;
    use contactd_core::store::ActionFilter;

    /// How SQLite runs a statement.
    fn plan(index: &Connection, sql: &str) -> String {
        let mut explain = index.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).expect("a statement");
        let numbers = explain.parameter_count();
        let nothing = vec![rusqlite::types::Null; numbers];
        let steps = explain.query_map(rusqlite::params_from_iter(nothing), |row| row.get(3)).expect("a plan");
        steps.collect::<rusqlite::Result<Vec<String>>>().expect("steps").join("; ")
    }

    #[test]
    fn questions_about_any_time_read_the_newest_lines_first_and_sort_nothing() {
        let dir = tempfile::tempdir().expect("a directory");
        let index =
            crate::schema::open(&dir.path().join("audit-index.db"), crate::schema::AUDIT).expect("opens");
        let of = |requests| AuditFilter {
            requests: Some(requests),
            actions: Some(ActionFilter::default()),
            ..AuditFilter::default()
        };
        let outcome = Some("hit".to_owned());
        for filter in [RequestFilter::default(), RequestFilter { outcome, ..RequestFilter::default() }] {
            let requests = plan(&index, &requests(&index, &of(filter)).expect("a statement"));
            assert!(requests.contains("events USING INDEX events_by_time"), "{requests}");
            assert!(!requests.contains("TEMP B-TREE"), "{requests}");
        }
        let actions = plan(&index, &actions(&of(RequestFilter::default())));
        assert!(actions.contains("admin_events USING INDEX admin_events_by_time"), "{actions}");
        assert!(!actions.contains("TEMP B-TREE"), "{actions}");
        let profiles = Some(vec![ShortDigest([1; 16]), ShortDigest([2; 16])]);
        let of_person = of(RequestFilter { profiles, ..RequestFilter::default() });
        let person = plan(&index, &requests(&index, &of_person).expect("a statement"));
        assert!(person.contains("events USING INDEX events_by_profile"), "{person}");
        let values = Some(vec![ShortDigest([1; 16])]);
        let of_value = of(RequestFilter { values, ..RequestFilter::default() });
        let value = plan(&index, &requests(&index, &of_value).expect("a statement"));
        assert!(value.contains("events USING INDEX events_by_value"), "{value}");
    }
}
