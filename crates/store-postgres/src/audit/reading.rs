//! Reading lines of the index.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

use contactd_core::store::{AuditFilter, AuditUsage, IndexedLine, RequestFilter, Stored};
use contactd_core::{AdminRecord, Asked, AuditOutcome, AuditRecord, RequestVia, ShortDigest, Timestamp};
use parking_lot::Mutex;
use tokio_postgres::Row;

use super::names::find_name;
use crate::connecting::Values;
use crate::database::{Database, Work};
use crate::failure::{Failure, Tried};
use crate::outbox;
use crate::usage::{signed, unsigned};
use crate::work::Cursor;

const EVENTS: &str = "SELECT seq, at, node.name, request_id, token.name, operation, outcome, reason.name, digest.name, profile,
    given_id, value, count, place, via
    FROM events JOIN names AS node ON node.id = events.node JOIN names AS token ON token.id = events.token
    LEFT JOIN names AS reason ON reason.id = events.reason LEFT JOIN names AS digest ON digest.id = events.digest_key";

const ADMIN: &str =
    "SELECT seq, node.name, record FROM admin_events JOIN names AS node ON node.id = admin_events.node";

/// The conditions that a filter can have. Those that are null are not asked for, and are removed before the plan is made.
const REQUESTS: &str = "WHERE at >= $1 AND at < $2
    AND ($3::text[] IS NULL OR events.token = ANY(ARRAY(SELECT id FROM names WHERE name = ANY($3))))
    AND ($4::smallint IS NULL OR outcome = $4) AND ($5::smallint IS NULL OR operation = $5)
    AND ($6::bytea[] IS NULL OR profile = ANY($6)) AND ($7::bytea[] IS NULL OR value = ANY($7))
    AND ($8::text IS NULL OR request_id = $8 OR given_id = ANY($9::bytea[]))
    ORDER BY at DESC, events.node DESC, seq DESC LIMIT $10";
const ACTIONS: &str = "WHERE at >= $1 AND at < $2 ORDER BY at DESC, admin_events.node DESC, seq DESC";

/// How many lines are fetched at once.
const FETCHED: usize = 500;

/// Visits the lines that match, newest first. Tries again if the connection is lost before the first line was visited.
pub(super) async fn visit_newest(
    database: &Database,
    filter: &AuditFilter,
    visit: impl FnMut(IndexedLine) -> bool + Send,
) -> Stored<()> {
    let (visit, has_visited) = (Mutex::new(visit), AtomicBool::new(false));
    let (visit, has_visited) = (&visit, &has_visited);
    let show = move |line: IndexedLine| {
        has_visited.store(true, Ordering::SeqCst);
        (visit.lock())(line)
    };
    let show = &show;
    database
        .read(move |work| async move {
            let visited = visit_in(&work, filter, show).await;
            visited.map_err(|failure| match has_visited.load(Ordering::SeqCst) {
                true => Failure::Store(failure.into_store_error()),
                false => failure,
            })
        })
        .await
}

async fn visit_in(
    work: &Work,
    filter: &AuditFilter,
    visit: &(impl Fn(IndexedLine) -> bool + Sync),
) -> Tried<()> {
    let most = filter.newest.map_or(i64::MAX, signed);
    let mut requests = Lines::of_requests(work, filter, most).await?;
    let mut actions = Lines::of_actions(work, filter).await?;
    for _ in 0..most {
        requests.fill(filter).await?;
        actions.fill(filter).await?;
        // No line is less than any.
        let newest = if requests.key() > actions.key() { &mut requests } else { &mut actions };
        if !newest.lines.pop_front().is_some_and(visit) {
            break;
        }
    }
    Ok(())
}

/// Lines of one kind, fetched a few at a time.
struct Lines<'a> {
    /// `None` if none are asked for.
    cursor: Option<Cursor<'a>>,
    read: fn(&Row) -> Tried<IndexedLine>,
    lines: VecDeque<IndexedLine>,
}

impl<'a> Lines<'a> {
    async fn of_requests(work: &'a Work, filter: &AuditFilter, most: i64) -> Tried<Self> {
        let mut lines =
            Self { cursor: None, read: |row| Ok(IndexedLine::Request(record(row)?)), lines: VecDeque::new() };
        let Some(RequestFilter { tokens, profiles, values, operation, outcome, request }) = &filter.requests
        else {
            return Ok(lines);
        };
        let outcome = match outcome.as_deref().map(AuditOutcome::number) {
            // An outcome that requests do not have.
            Some(None) => return Ok(lines),
            Some(Some(number)) => i16::try_from(number).ok(),
            None => None,
        };
        if profiles.is_some() || values.is_some() {
            // They are few: find them by their digests and sort them.
            work.batch_execute("SET LOCAL cursor_tuple_fraction TO 1").await?;
        }
        let (since, until) = times(filter);
        let profiles = profiles.as_deref().map(digests);
        let values = values.as_deref().map(digests);
        let (request, given) = match request {
            Some((request, given)) => (Some(request), digests(given)),
            None => (None, Vec::new()),
        };
        let operation = operation.map(Asked::number);
        let conditions: Values<'_> =
            &[&since, &until, tokens, &outcome, &operation, &profiles, &values, &request, &given, &most];
        lines.cursor = Some(work.cursor("requests", &format!("{EVENTS} {REQUESTS}"), conditions).await?);
        Ok(lines)
    }

    async fn of_actions(work: &'a Work, filter: &AuditFilter) -> Tried<Self> {
        let read = |row: &Row| Ok(IndexedLine::Admin(admin_record(row)?));
        let mut lines = Self { cursor: None, read, lines: VecDeque::new() };
        if filter.actions.is_some() {
            let (since, until) = times(filter);
            let actions = format!("{ADMIN} {ACTIONS}");
            lines.cursor = Some(work.cursor("actions", &actions, &[&since, &until]).await?);
        }
        Ok(lines)
    }

    /// Makes sure that there is a line, unless all were read.
    async fn fill(&mut self, filter: &AuditFilter) -> Tried<()> {
        while let Some(cursor) = self.cursor.as_mut().filter(|_| self.lines.is_empty()) {
            let rows = cursor.next(FETCHED).await?;
            if rows.is_empty() {
                self.cursor = None;
            }
            for row in &rows {
                let line = (self.read)(row)?;
                // Whether an action matches is known only after it is parsed.
                if filter.matches(&line) {
                    self.lines.push_back(line);
                }
            }
        }
        Ok(())
    }

    fn key(&self) -> Option<(Timestamp, u64)> {
        self.lines.front().map(|line| (line.at(), line.seq()))
    }
}

fn times(filter: &AuditFilter) -> (i64, i64) {
    let time = |at: Option<Timestamp>, other| at.map_or(other, Timestamp::millis);
    (time(filter.since, i64::MIN), time(filter.until, i64::MAX))
}

fn digests(digests: &[ShortDigest]) -> Vec<&[u8]> {
    digests.iter().map(|digest| &digest.0[..]).collect()
}

fn record(row: &Row) -> Tried<AuditRecord> {
    let digest = |column: usize| {
        let bytes = row.get::<_, Option<&[u8]>>(column);
        let digest = bytes.map(TryInto::try_into).transpose();
        digest
            .map(|digest| digest.map(ShortDigest))
            .map_err(|_| Failure::damaged("a line of the audit index"))
    };
    let outcome = usize::try_from(row.get::<_, i16>(6)).unwrap_or(2);
    Ok(AuditRecord {
        seq: unsigned(row.get(0)),
        at: Timestamp::from_millis(row.get(1)),
        node: row.get(2),
        request_id: row.get(3),
        token: row.get(4),
        operation: Asked::numbered(row.get::<_, i16>(5).into()),
        outcome: AuditOutcome::NAMES.get(outcome).copied().unwrap_or("refused").to_owned(),
        reason: row.get(7),
        profile: row.get::<_, Option<String>>(8).zip(digest(9)?),
        given_id: digest(10)?,
        value: digest(11)?,
        count: unsigned(row.get(12)),
        place: row.get::<_, Option<i32>>(13).and_then(|place| u32::try_from(place).ok()),
        via: row.get::<_, Option<&str>>(14).and_then(RequestVia::named),
    })
}

fn admin_record(row: &Row) -> Tried<AdminRecord> {
    Ok(AdminRecord { seq: unsigned(row.get(0)), node: row.get(1), entry: outbox::from_text(row, 2)? })
}

pub(super) async fn indexed(work: &Work, node: &str, from: u64, through: u64) -> Tried<Vec<IndexedLine>> {
    let node = find_name(work, node).await?.unwrap_or(0);
    let (from, through) = (signed(from), signed(through));
    let of =
        |table: &str, columns: &str| format!("{columns} WHERE {table}.node = $1 AND seq BETWEEN $2 AND $3");
    let requests = work.query(&of("events", EVENTS), &[&node, &from, &through]).await?;
    let admin = work.query(&of("admin_events", ADMIN), &[&node, &from, &through]).await?;
    let requests = requests.iter().map(|row| record(row).map(IndexedLine::Request));
    let admin = admin.iter().map(|row| admin_record(row).map(IndexedLine::Admin));
    let mut lines: Vec<IndexedLine> = requests.chain(admin).collect::<Result<_, _>>()?;
    lines.sort_by_key(IndexedLine::seq);
    Ok(lines)
}

/// Usage on one node, or on all together.
pub(super) async fn usage(work: &Work, node: Option<i32>, since: i64) -> Tried<Vec<AuditUsage>> {
    let sum = "SELECT names.name, day, sum(hits)::bigint, sum(misses)::bigint, sum(refused)::bigint
        FROM audit_usage JOIN names ON names.id = audit_usage.token
        WHERE ($1::integer IS NULL OR node = $1) AND day >= $2
        GROUP BY day, names.name ORDER BY day, names.name";
    let usage = |row: &Row| AuditUsage {
        token: row.get(0),
        day: row.get(1),
        hits: unsigned(row.get(2)),
        misses: unsigned(row.get(3)),
        refused: unsigned(row.get(4)),
    };
    Ok(work.query(sum, &[&node, &since]).await?.iter().map(usage).collect())
}
