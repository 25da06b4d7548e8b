//! The index of the journal, in its own file, `audit-index.db`.

use std::collections::HashMap;
use std::sync::MutexGuard;

use contactd_core::store::{
    AuditFilter, AuditIndex, AuditUsage, IndexStep, IndexedLine, StoreError, StoreFuture,
};
use contactd_core::{
    AdminRecord, AuditOutcome, AuditPosition, AuditRecord, NOT_RECORDED, ShortDigest, Timestamp, hex,
};
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};

use crate::numbers::{kind, kind_number};
use crate::{SqliteStore, connection, lock, outbox, schema};

/// The locked connection to the index, which is opened when first needed.
pub(crate) struct OpenIndex<'a>(MutexGuard<'a, Option<Connection>>);

impl OpenIndex<'_> {
    fn connection(&mut self) -> Result<&mut Connection, StoreError> {
        self.0.as_mut().ok_or_else(|| StoreError::Engine("the audit index is not open".to_owned()))
    }
}

impl AuditIndex for SqliteStore {
    fn audit_position(&self, node: &str) -> impl StoreFuture<AuditPosition> {
        // Reading changes nothing: until a write does, the node without a name may be this one.
        let read = |index: &Connection| {
            for name in [node, ""] {
                let position = match find_name(index, name)? {
                    Some(id) => position(index, id)?,
                    None => AuditPosition::default(),
                };
                if position != AuditPosition::default() {
                    return Ok(position);
                }
            }
            Ok(AuditPosition::default())
        };
        std::future::ready(self.read_index(read))
    }

    fn index_audit(&self, step: IndexStep<'_>) -> impl StoreFuture<bool> {
        std::future::ready(self.change_index(|index| add_step(index, step)))
    }

    fn reset_audit_index(&self, node: &str, first_day: i64) -> impl StoreFuture<()> {
        std::future::ready(self.change_index(|index| {
            repair_schema(index)?;
            let node = Names::default().node(index, node)?;
            index.execute("DELETE FROM events WHERE node = ?1", [node])?;
            index.execute("DELETE FROM admin_events WHERE node = ?1", [node])?;
            index.execute("DELETE FROM usage WHERE node = ?1 AND day >= ?2", (node, first_day))?;
            move_to(index, node, AuditPosition::default())
        }))
    }

    fn forget_audit(&self, node: &str, through: u64) -> impl StoreFuture<()> {
        std::future::ready(self.change_index(|index| {
            let node = Names::default().node(index, node)?;
            index.execute("DELETE FROM events WHERE node = ?1 AND seq <= ?2", (node, through))?;
            index
                .execute("DELETE FROM admin_events WHERE node = ?1 AND seq <= ?2", (node, through))
                .map(|_| ())
        }))
    }

    fn find_entries(&self, ids: &[String]) -> impl StoreFuture<Vec<String>> {
        std::future::ready(self.read_index(|index| {
            let mut find = index.prepare_cached("SELECT entry FROM admin_events WHERE entry = ?1")?;
            let mut found = Vec::new();
            for id in ids {
                found.extend(find.query_row([id], |row| row.get(0)).optional()?);
            }
            Ok(found)
        }))
    }

    fn list_admin(
        &self,
        since: Option<Timestamp>,
        until: Option<Timestamp>,
    ) -> impl StoreFuture<Vec<AdminRecord>> {
        let time = |at: Option<Timestamp>, other| at.map_or(other, Timestamp::millis);
        std::future::ready(self.read_index(|index| {
            let mut list = index.prepare_cached(&format!(
                "{ADMIN} WHERE at >= ?1 AND at < ?2 ORDER BY admin_events.node, seq"
            ))?;
            list.query_map((time(since, i64::MIN), time(until, i64::MAX)), admin_record)?.collect()
        }))
    }

    fn indexed(&self, node: &str, from: u64, through: u64) -> impl StoreFuture<Vec<IndexedLine>> {
        std::future::ready(self.read_index(|index| indexed(index, node, from, through)))
    }

    fn count_foreign(&self, node: &str) -> impl StoreFuture<u64> {
        std::future::ready(self.read_index(|index| {
            let of = |table: &str| {
                format!(
                    "(SELECT count(*) FROM {table} WHERE node <> ?1
                      OR seq > coalesce((SELECT seq FROM positions WHERE node = ?1), 0))"
                )
            };
            let node = find_name(index, node)?.unwrap_or(0);
            let sql = format!(
                "SELECT {} + {} + (SELECT count(*) FROM usage WHERE node <> ?1) + (SELECT count(*) FROM positions WHERE node <> ?1)",
                of("events"),
                of("admin_events")
            );
            index.query_row(&sql, [node], |row| row.get(0))
        }))
    }

    fn remove_foreign(&self, node: &str) -> impl StoreFuture<()> {
        std::future::ready(self.change_index(|index| {
            let node = Names::default().node(index, node)?;
            for table in TABLES {
                index.execute(&format!("DELETE FROM {table} WHERE node <> ?1"), [node])?;
            }
            Ok(())
        }))
    }

    fn check_index(&self) -> impl StoreFuture<Vec<String>> {
        std::future::ready(self.read_index(|index| {
            let mut wrong = Vec::new();
            let known = INDEXES.map(|(name, _)| format!("'{name}'")).join(", ");
            let is_strange = index.query_row(
                &format!(
                    "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE {MADE} AND name NOT IN ({known}))"
                ),
                (),
                |row| row.get(0),
            )?;
            if is_strange {
                wrong.push("it contains triggers, views or indexes that do not belong there".to_owned());
            }
            let mut check = index.prepare("PRAGMA integrity_check(1)")?;
            let said: String = check.query_row((), |row| row.get(0))?;
            if said != "ok" {
                wrong.push("its tables and indexes do not agree".to_owned());
            }
            Ok(wrong)
        }))
    }

    fn audit_usage_of(&self, node: &str) -> impl StoreFuture<Vec<AuditUsage>> {
        std::future::ready(self.read_index(|index| usage(index, Some(find_name(index, node)?.unwrap_or(0)))))
    }

    fn visit_audit(
        &self,
        filter: &AuditFilter,
        visit: impl FnMut(AuditRecord) -> bool + Send,
    ) -> impl StoreFuture<()> {
        std::future::ready(self.read_index(|index| visit_events(index, filter, visit)))
    }

    fn audit_usage(&self) -> impl StoreFuture<Vec<AuditUsage>> {
        std::future::ready(self.read_index(|index| usage(index, None)))
    }
}

impl SqliteStore {
    /// The index, opened or created if necessary.
    fn audit(&self) -> Result<OpenIndex<'_>, StoreError> {
        let mut audit = lock(&self.audit);
        if audit.is_none() {
            let opened =
                schema::open(&self.dir.join("audit-index.db"), schema::AUDIT).map_err(index_error)?;
            // The index can be rebuilt from the journal, so a commit need not wait for the disk.
            opened.execute_batch("PRAGMA synchronous = NORMAL").map_err(error)?;
            *audit = Some(opened);
        }
        Ok(OpenIndex(audit))
    }

    fn read_index<T>(&self, read: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        self.audit().and_then(|mut audit| read(audit.connection()?).map_err(error))
    }

    /// Changes the index in one transaction.
    fn change_index<T>(
        &self,
        change: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let mut audit = self.audit()?;
        let transaction = connection::write(audit.connection()?)?;
        let done = change(&transaction).map_err(error)?;
        transaction.commit().map_err(error)?;
        Ok(done)
    }
}

/// The indexes of the file, by name.
const INDEXES: [(&str, &str); 3] = [
    ("events_by_profile", "events (profile) WHERE profile IS NOT NULL"),
    ("events_by_value", "events (value) WHERE value IS NOT NULL"),
    ("admin_events_by_entry", "admin_events (entry)"),
];
/// The tables that have lines of nodes.
const TABLES: [&str; 4] = ["events", "admin_events", "positions", "usage"];
/// Selects what somebody made in the file beside tables. Indexes without SQL belong to their tables.
const MADE: &str = "(type IN ('trigger', 'view') OR (type = 'index' AND sql IS NOT NULL))";

/// Makes the indexes anew, and removes what does not belong into the file.
fn repair_schema(index: &Transaction<'_>) -> rusqlite::Result<()> {
    let mut list = index.prepare(&format!("SELECT type, name FROM sqlite_schema WHERE {MADE}"))?;
    let found = list.query_map((), |row| Ok((row.get(0)?, row.get(1)?)))?;
    let found: Vec<(String, String)> = found.collect::<rusqlite::Result<_>>()?;
    for (kind, name) in found {
        index.execute_batch(&format!("DROP {kind} \"{}\"", name.replace('"', "\"\"")))?;
    }
    for (name, what) in INDEXES {
        index.execute_batch(&format!("CREATE INDEX {name} ON {what}"))?;
    }
    Ok(())
}

/// Adds the lines of a step if the index is still at the position where the step begins.
fn add_step(index: &Transaction<'_>, step: IndexStep<'_>) -> rusqlite::Result<bool> {
    let mut names = Names::default();
    let node = names.node(index, step.node)?;
    if position(index, node)? != step.from {
        return Ok(false);
    }
    add(index, &mut names, node, step.records)?;
    add_admin(index, node, step.admin)?;
    correct(index, &mut names, node, step.undisclosed)?;
    move_to(index, node, step.to)?;
    Ok(true)
}

fn position(connection: &Connection, node: i64) -> rusqlite::Result<AuditPosition> {
    let mut find =
        connection.prepare_cached("SELECT segment, offset, seq, chain FROM positions WHERE node = ?1")?;
    let position = find.query_row([node], |row| {
        Ok(AuditPosition { segment: row.get(0)?, offset: row.get(1)?, seq: row.get(2)?, chain: row.get(3)? })
    });
    Ok(position.optional()?.unwrap_or_default())
}

fn move_to(transaction: &Transaction<'_>, node: i64, to: AuditPosition) -> rusqlite::Result<()> {
    let values = (node, to.segment, to.offset, to.seq, to.chain);
    let moved = transaction.execute("INSERT OR REPLACE INTO positions VALUES (?1, ?2, ?3, ?4, ?5)", values);
    moved.map(|_| ())
}

/// Marks lines as refused that say hit or miss although nothing was disclosed.
fn correct(
    transaction: &Transaction<'_>,
    names: &mut Names,
    node: i64,
    undisclosed: &[(u64, u64)],
) -> rusqlite::Result<()> {
    for &(from, through) in undisclosed {
        let mut wrong = transaction.prepare(
            "SELECT token, at, outcome, sum(count) FROM events
             WHERE node = ?1 AND seq BETWEEN ?2 AND ?3 AND outcome <> 2 GROUP BY token, at / 86400000, outcome",
        )?;
        let mut rows = wrong.query((node, from, through))?;
        while let Some(row) = rows.next()? {
            let (token, at, outcome, count): (i64, i64, i64, i64) =
                (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?);
            let day = Timestamp::from_millis(at).day();
            let (hits, misses) = if outcome == 0 { (count, 0) } else { (0, count) };
            transaction.execute(
                "UPDATE usage SET hits = hits - ?3, misses = misses - ?4, refused = refused + ?5
                 WHERE token = ?1 AND day = ?2 AND node = ?6",
                (token, day, hits, misses, count, node),
            )?;
        }
        let reason = names.id(transaction, NOT_RECORDED)?;
        transaction.execute(
            "UPDATE events SET outcome = 2, reason = ?4 WHERE node = ?1 AND seq BETWEEN ?2 AND ?3 AND outcome <> 2",
            (node, from, through, reason),
        )?;
    }
    Ok(())
}

fn add(
    transaction: &Transaction<'_>,
    names: &mut Names,
    node: i64,
    records: &[AuditRecord],
) -> rusqlite::Result<()> {
    let mut used: HashMap<(i64, i64), [i64; 3]> = HashMap::new();
    let mut insert = transaction.prepare_cached(
        "INSERT OR REPLACE INTO events VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
    )?;
    for record in records {
        let token = names.id(transaction, &record.token)?;
        let Some(outcome) = AuditOutcome::number(&record.outcome) else { continue };
        let reason = record.reason.as_ref().map(|reason| names.id(transaction, reason)).transpose()?;
        let (key, profile) = match &record.profile {
            Some((key, digest)) => (Some(names.id(transaction, key)?), Some(digest.0)),
            None => (None, None),
        };
        insert.execute(params![
            node,
            record.seq,
            record.at.millis(),
            record.request_id,
            token,
            kind_number(record.operation),
            outcome as i64,
            reason,
            key,
            profile,
            record.given_id.map(|digest| digest.0),
            record.value.map(|digest| digest.0),
            record.count
        ])?;
        used.entry((token, record.at.day())).or_default()[outcome] +=
            i64::try_from(record.count).unwrap_or(0);
    }
    let mut count = transaction.prepare_cached(
        "INSERT INTO usage VALUES (?1, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT DO UPDATE SET hits = hits + excluded.hits, misses = misses + excluded.misses,
             refused = refused + excluded.refused",
    )?;
    for ((token, day), [hits, misses, refused]) in used {
        count.execute((node, token, day, hits, misses, refused))?;
    }
    Ok(())
}

fn add_admin(transaction: &Transaction<'_>, node: i64, records: &[AdminRecord]) -> rusqlite::Result<()> {
    let mut insert =
        transaction.prepare_cached("INSERT OR REPLACE INTO admin_events VALUES (?1, ?2, ?3, ?4, ?5)")?;
    for record in records {
        let entry = &record.entry;
        let values = (node, record.seq, entry.time.millis(), &entry.entry, outbox::to_text(entry)?);
        insert.execute(values)?;
    }
    Ok(())
}

/// The ids of names, each looked up once.
#[derive(Default)]
struct Names(HashMap<String, i64>);

impl Names {
    /// The id of a node. The first node that is named takes over what belongs to the node without a name.
    fn node(&mut self, connection: &Connection, node: &str) -> rusqlite::Result<i64> {
        let id = self.id(connection, node)?;
        if let Some(unnamed) = find_name(connection, "")?.filter(|unnamed| *unnamed != id) {
            connection.execute(
                "INSERT INTO usage SELECT ?1, token, day, hits, misses, refused FROM usage WHERE node = ?2
                 ON CONFLICT DO UPDATE SET hits = hits + excluded.hits, misses = misses + excluded.misses,
                     refused = refused + excluded.refused",
                (id, unnamed),
            )?;
            for table in ["events", "admin_events", "positions"] {
                let update = format!("UPDATE OR IGNORE {table} SET node = ?1 WHERE node = ?2");
                connection.execute(&update, (id, unnamed))?;
            }
            for table in TABLES {
                connection.execute(&format!("DELETE FROM {table} WHERE node = ?1"), [unnamed])?;
            }
            connection.execute("DELETE FROM names WHERE id = ?1", [unnamed])?;
        }
        Ok(id)
    }

    fn id(&mut self, connection: &Connection, name: &str) -> rusqlite::Result<i64> {
        if let Some(&id) = self.0.get(name) {
            return Ok(id);
        }
        let known = find_name(connection, name)?;
        let id = match known {
            Some(id) => id,
            None => {
                connection.execute("INSERT INTO names (name) VALUES (?1)", [name])?;
                connection.last_insert_rowid()
            }
        };
        self.0.insert(name.to_owned(), id);
        Ok(id)
    }
}

fn find_name(connection: &Connection, name: &str) -> rusqlite::Result<Option<i64>> {
    let mut statement = connection.prepare_cached("SELECT id FROM names WHERE name = ?1")?;
    statement.query_row([name], |row| row.get(0)).optional()
}

const EVENTS: &str = "SELECT seq, at, node.name, request_id, token.name, operation, outcome, reason.name, digest.name, profile,
    given_id, value, count
    FROM events JOIN names AS node ON node.id = events.node JOIN names AS token ON token.id = events.token
    LEFT JOIN names AS reason ON reason.id = events.reason LEFT JOIN names AS digest ON digest.id = events.digest_key";

fn visit_events(
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

const ADMIN: &str = "SELECT seq, node.name, record FROM admin_events
    JOIN names AS node ON node.id = admin_events.node";

fn admin_record(row: &Row<'_>) -> rusqlite::Result<AdminRecord> {
    Ok(AdminRecord { seq: row.get(0)?, node: row.get(1)?, entry: outbox::from_text(row, 2)? })
}

fn indexed(index: &Connection, node: &str, from: u64, through: u64) -> rusqlite::Result<Vec<IndexedLine>> {
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
fn usage(connection: &Connection, node: Option<i64>) -> rusqlite::Result<Vec<AuditUsage>> {
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

/// Converts an error of SQLite.
fn error(error: rusqlite::Error) -> StoreError {
    index_error(connection::error(error))
}

/// A damaged index can be rebuilt from the journal, so nothing needs to be restored from a backup.
fn index_error(error: StoreError) -> StoreError {
    match error {
        StoreError::Damaged(_) => StoreError::Damaged(
            "audit-index.db is damaged; delete it, and it is rebuilt from the journal, except usage counts of days that \
             the journal no longer has".to_owned(),
        ),
        error => error,
    }
}
