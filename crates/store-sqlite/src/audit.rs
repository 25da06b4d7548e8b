//! The index of the journal, in a file of its own: `audit-index.db`.

use std::collections::HashMap;
use std::sync::MutexGuard;

use contactd_core::store::{AuditFilter, AuditIndex, AuditUsage, Outcome, StoreError};
use contactd_core::{AuditOutcome, AuditPosition, AuditRecord, Kind, NOT_RECORDED, ProfileDigest, Timestamp};
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};

use crate::details::{kind, kind_number};
use crate::{SqliteStore, connection, lock, schema};

/// The connection to the index, once somebody has needed it.
pub(crate) struct Opened<'a>(MutexGuard<'a, Option<Connection>>);

impl Opened<'_> {
    fn connection(&mut self) -> Result<&mut Connection, StoreError> {
        self.0.as_mut().ok_or_else(|| StoreError::Engine("the audit index is not open".to_owned()))
    }
}

impl AuditIndex for SqliteStore {
    fn audit_position(&self) -> impl Outcome<AuditPosition> {
        let position = self.audit().and_then(|mut audit| position(audit.connection()?).map_err(error));
        std::future::ready(position)
    }

    fn index_audit(
        &self,
        records: &[AuditRecord],
        undisclosed: &[(u64, u64)],
        from: AuditPosition,
        to: AuditPosition,
    ) -> impl Outcome<bool> {
        std::future::ready(self.index(records, undisclosed, from, to))
    }

    fn reset_audit_index(&self, first_day: i64) -> impl Outcome<()> {
        let reset = self.audit().and_then(|mut audit| {
            let transaction = connection::write(audit.connection()?)?;
            reset(&transaction, first_day).map_err(error)?;
            transaction.commit().map_err(error)
        });
        std::future::ready(reset)
    }

    fn forget_audit(&self, through: u64) -> impl Outcome<()> {
        let forgotten = self.audit().and_then(|mut audit| {
            let done = audit.connection()?.execute("DELETE FROM events WHERE seq <= ?1", [through]);
            done.map(|_| ()).map_err(error)
        });
        std::future::ready(forgotten)
    }

    fn visit_audit(
        &self,
        filter: &AuditFilter,
        visit: impl FnMut(AuditRecord) -> bool + Send,
    ) -> impl Outcome<()> {
        let visited = self.audit().and_then(|mut audit| {
            let connection = audit.connection()?;
            visit_events(connection, filter, visit).map_err(error)
        });
        std::future::ready(visited)
    }

    fn audit_usage(&self) -> impl Outcome<Vec<AuditUsage>> {
        let usage = self.audit().and_then(|mut audit| usage(audit.connection()?).map_err(error));
        std::future::ready(usage)
    }
}

impl SqliteStore {
    /// The index, opened or made if need be.
    fn audit(&self) -> Result<Opened<'_>, StoreError> {
        let mut audit = lock(&self.audit);
        if audit.is_none() {
            let opened =
                schema::open(&self.dir.join("audit-index.db"), schema::AUDIT).map_err(index_error)?;
            // It can be made anew: it need not be on disk before it is used.
            opened.execute_batch("PRAGMA synchronous = NORMAL").map_err(error)?;
            *audit = Some(opened);
        }
        Ok(Opened(audit))
    }

    fn index(
        &self,
        records: &[AuditRecord],
        undisclosed: &[(u64, u64)],
        from: AuditPosition,
        to: AuditPosition,
    ) -> Result<bool, StoreError> {
        let mut audit = self.audit()?;
        let transaction = connection::write(audit.connection()?)?;
        if position(&transaction).map_err(error)? != from {
            return Ok(false);
        }
        let done = add(&transaction, records).and_then(|()| correct(&transaction, undisclosed));
        done.and_then(|()| move_to(&transaction, to)).map_err(error)?;
        transaction.commit().map_err(error)?;
        Ok(true)
    }
}

fn position(connection: &Connection) -> rusqlite::Result<AuditPosition> {
    connection.query_row("SELECT segment, offset, seq, chain FROM position", (), |row| {
        Ok(AuditPosition { segment: row.get(0)?, offset: row.get(1)?, seq: row.get(2)?, chain: row.get(3)? })
    })
}

fn move_to(transaction: &Transaction<'_>, to: AuditPosition) -> rusqlite::Result<()> {
    let values = (to.segment, to.offset, to.seq, to.chain);
    let moved =
        transaction.execute("UPDATE position SET segment = ?1, offset = ?2, seq = ?3, chain = ?4", values);
    moved.map(|_| ())
}

fn reset(transaction: &Transaction<'_>, first_day: i64) -> rusqlite::Result<()> {
    transaction.execute("DELETE FROM events", ())?;
    transaction.execute("DELETE FROM usage WHERE day >= ?1", [first_day])?;
    move_to(transaction, AuditPosition::default())
}

/// Makes lines that say more than happened say that they were refused.
fn correct(transaction: &Transaction<'_>, undisclosed: &[(u64, u64)]) -> rusqlite::Result<()> {
    let mut names = Names::default();
    for &lines in undisclosed {
        let mut wrong = transaction.prepare(
            "SELECT token, at, outcome, count(*) FROM events WHERE seq BETWEEN ?1 AND ?2 AND outcome <> 2
             GROUP BY token, at / 86400000, outcome",
        )?;
        let mut rows = wrong.query(lines)?;
        while let Some(row) = rows.next()? {
            let (token, at, outcome, count): (i64, i64, i64, i64) =
                (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?);
            let day = Timestamp::from_millis(at).day();
            let (hits, misses) = if outcome == 0 { (count, 0) } else { (0, count) };
            transaction.execute(
                "UPDATE usage SET hits = hits - ?3, misses = misses - ?4, refused = refused + ?5
                 WHERE token = ?1 AND day = ?2",
                (token, day, hits, misses, count),
            )?;
        }
        let reason = names.id(transaction, NOT_RECORDED)?;
        transaction.execute(
            "UPDATE events SET outcome = 2, reason = ?3 WHERE seq BETWEEN ?1 AND ?2 AND outcome <> 2",
            (lines.0, lines.1, reason),
        )?;
    }
    Ok(())
}

fn add(transaction: &Transaction<'_>, records: &[AuditRecord]) -> rusqlite::Result<()> {
    let mut names = Names::default();
    let mut used: HashMap<(i64, i64), [i64; 3]> = HashMap::new();
    let mut insert = transaction
        .prepare_cached("INSERT OR REPLACE INTO events VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)")?;
    for record in records {
        let token = names.id(transaction, &record.token)?;
        let outcome = outcome_number(&record.outcome);
        let reason = record.reason.as_ref().map(|reason| names.id(transaction, reason)).transpose()?;
        let (key, profile) = match &record.profile {
            Some((key, digest)) => (Some(names.id(transaction, key)?), Some(digest.0)),
            None => (None, None),
        };
        insert.execute(params![
            record.seq,
            record.at.millis(),
            names.id(transaction, &record.node)?,
            record.request_id,
            token,
            kind_number(record.operation),
            outcome as i64,
            reason,
            key,
            profile
        ])?;
        used.entry((token, record.at.day())).or_default()[outcome] += 1;
    }
    let mut count = transaction.prepare_cached(
        "INSERT INTO usage VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT DO UPDATE SET hits = hits + excluded.hits, misses = misses + excluded.misses,
             refused = refused + excluded.refused",
    )?;
    for ((token, day), [hits, misses, refused]) in used {
        count.execute((token, day, hits, misses, refused))?;
    }
    Ok(())
}

/// The place of an outcome among [`AuditOutcome::NAMES`], which is its number.
fn outcome_number(name: &str) -> usize {
    AuditOutcome::NAMES.iter().position(|known| *known == name).unwrap_or(AuditOutcome::NAMES.len() - 1)
}

/// Texts that have numbers, looked up once each.
#[derive(Default)]
struct Names(HashMap<String, i64>);

impl Names {
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

const EVENTS: &str = "SELECT seq, at, node.name, request_id, token.name, operation, outcome, reason.name, digest.name, profile
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
        clauses.push(format!("outcome = {}", outcome_number(outcome)));
    }
    if let Some(profiles) = &filter.profiles {
        let hex =
            |digest: &ProfileDigest| digest.0.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let digests: Vec<String> = profiles.iter().map(|digest| format!("x'{}'", hex(digest))).collect();
        clauses.push(format!("profile IN ({})", digests.join(", ")));
    }
    let mut statement =
        connection.prepare(&format!("{EVENTS} WHERE {} ORDER BY seq", clauses.join(" AND ")))?;
    let time = |at: Option<Timestamp>, other| at.map_or(other, Timestamp::millis);
    let mut rows = statement.query((time(filter.since, i64::MIN), time(filter.until, i64::MAX)))?;
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
        operation: operation(row.get(5)?),
        outcome: AuditOutcome::NAMES.get(outcome).copied().unwrap_or("refused").to_owned(),
        reason: row.get(7)?,
        profile: key.zip(profile.map(ProfileDigest)),
    })
}

const fn operation(number: i64) -> Kind {
    kind(number)
}

fn usage(connection: &Connection) -> rusqlite::Result<Vec<AuditUsage>> {
    let mut statement = connection.prepare(
        "SELECT names.name, day, hits, misses, refused FROM usage JOIN names ON names.id = usage.token
         ORDER BY day, names.name",
    )?;
    let rows = statement.query_map((), |row| {
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

/// SQLite's error as ours.
fn error(error: rusqlite::Error) -> StoreError {
    index_error(connection::error(error))
}

/// An index that is damaged is no loss.
fn index_error(error: StoreError) -> StoreError {
    match error {
        StoreError::Engine(what) if what == connection::DAMAGED => StoreError::Engine(
            "audit-index.db is damaged; remove it, and it is made anew from the journal".to_owned(),
        ),
        error => error,
    }
}
