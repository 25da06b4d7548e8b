//! Adding lines to the index.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};

use contactd_core::store::IndexStep;
use contactd_core::{AdminRecord, AuditOutcome, AuditPosition, AuditRecord, NOT_RECORDED, RequestVia};
use tokio_postgres::Row;

use super::names::{ids, lock_node};
use crate::database::Work;
use crate::failure::{Failure, Tried};
use crate::usage::{signed, unsigned};
use crate::{PostgresStore, outbox};

/// Adds the lines of a step if the index is still at the position where the step begins. `was_added` is whether an earlier
/// attempt may have been committed.
pub(super) async fn add_step(
    store: &PostgresStore,
    work: &Work,
    step: IndexStep<'_>,
    was_added: &AtomicBool,
) -> Tried<bool> {
    let node = lock_node(work, step.node).await?;
    store.check_claim(work, step.node).await?;
    let position = position(work, node).await?;
    if position != step.from {
        return Ok(was_added.load(Ordering::SeqCst) && position == step.to);
    }
    add(work, node, step.records).await?;
    add_admin(work, node, step.admin).await?;
    correct(work, node, step.undisclosed).await?;
    move_to(work, node, step.to).await?;
    was_added.store(true, Ordering::SeqCst);
    Ok(true)
}

pub(super) async fn position(work: &Work, node: i32) -> Tried<AuditPosition> {
    let find = "SELECT segment, \"offset\", seq, chain FROM positions WHERE node = $1";
    let Some(row) = work.query_opt(find, &[&node]).await? else { return Ok(AuditPosition::default()) };
    position_in(&row, 0)
}

/// The position that four columns of a row have, from this one on.
pub(crate) fn position_in(row: &Row, first: usize) -> Tried<AuditPosition> {
    let chain = row.get::<_, &[u8]>(first + 3).try_into();
    Ok(AuditPosition {
        segment: unsigned(row.get(first)),
        offset: unsigned(row.get(first + 1)),
        seq: unsigned(row.get(first + 2)),
        chain: chain.map_err(|_| Failure::damaged("a position in a journal"))?,
    })
}

pub(super) async fn move_to(work: &Work, node: i32, to: AuditPosition) -> Tried<()> {
    let replace = "INSERT INTO positions VALUES ($1, $2, $3, $4, $5)
        ON CONFLICT (node) DO UPDATE SET segment = excluded.segment, \"offset\" = excluded.\"offset\",
            seq = excluded.seq, chain = excluded.chain";
    let (segment, offset, seq) = (signed(to.segment), signed(to.offset), signed(to.seq));
    work.execute(replace, &[&node, &segment, &offset, &seq, &&to.chain[..]]).await?;
    Ok(())
}

/// Marks lines as refused that say hit or miss although nothing was disclosed.
async fn correct(work: &Work, node: i32, undisclosed: &[(u64, u64)]) -> Tried<()> {
    if undisclosed.is_empty() {
        return Ok(());
    }
    let reason = ids(work, BTreeSet::from([NOT_RECORDED])).await?.remove(NOT_RECORDED);
    for &(from, through) in undisclosed {
        let (from, through) = (signed(from), signed(through));
        let count = "UPDATE audit_usage SET hits = audit_usage.hits - wrong.hits,
                misses = audit_usage.misses - wrong.misses,
                refused = audit_usage.refused + wrong.hits + wrong.misses
            FROM (
                SELECT token, floor(at / 86400000.0)::bigint AS day,
                    coalesce(sum(count) FILTER (WHERE outcome = 0), 0)::bigint AS hits,
                    coalesce(sum(count) FILTER (WHERE outcome = 1), 0)::bigint AS misses
                FROM events WHERE node = $1 AND seq BETWEEN $2 AND $3 AND via IS DISTINCT FROM 'sandbox' GROUP BY 1, 2
            ) AS wrong
            WHERE audit_usage.node = $1 AND audit_usage.token = wrong.token AND audit_usage.day = wrong.day";
        work.execute(count, &[&node, &from, &through]).await?;
        let mark = "UPDATE events SET outcome = 2, reason = $4
                    WHERE node = $1 AND seq BETWEEN $2 AND $3 AND outcome <> 2";
        work.execute(mark, &[&node, &from, &through, &reason]).await?;
    }
    Ok(())
}

/// Requests by column, as a statement takes them.
#[derive(Default)]
struct Columns<'a> {
    seq: Vec<i64>,
    at: Vec<i64>,
    token: Vec<Option<i32>>,
    reason: Vec<Option<i32>>,
    digest_key: Vec<Option<i32>>,
    operation: Vec<i16>,
    outcome: Vec<i16>,
    count: Vec<i64>,
    request_id: Vec<&'a str>,
    given_id: Vec<Option<&'a [u8]>>,
    profile: Vec<Option<&'a [u8]>>,
    value: Vec<Option<&'a [u8]>>,
    place: Vec<Option<i32>>,
    via: Vec<Option<&'a str>>,
}

/// The last one counts if a number is given twice.
const INSERT: &str = "INSERT INTO events (node, seq, at, token, reason, digest_key, operation, outcome, count, request_id,
        given_id, profile, value, place, via)
    SELECT DISTINCT ON (seq) $15, seq, at, token, reason, digest_key, operation, outcome, count, request_id, given_id, profile,
        value, place, via
    FROM unnest($1::bigint[], $2::bigint[], $3::integer[], $4::integer[], $5::integer[], $6::smallint[], $7::smallint[],
        $8::bigint[], $9::text[], $10::bytea[], $11::bytea[], $12::bytea[], $13::integer[], $14::text[]) WITH ORDINALITY
        AS given (seq, at, token, reason, digest_key, operation, outcome, count, request_id, given_id, profile, value, place,
            via, given)
    ORDER BY seq, given DESC
    ON CONFLICT (node, seq) DO UPDATE SET at = excluded.at, token = excluded.token, reason = excluded.reason,
        digest_key = excluded.digest_key, operation = excluded.operation, outcome = excluded.outcome,
        count = excluded.count, request_id = excluded.request_id, given_id = excluded.given_id,
        profile = excluded.profile, value = excluded.value, place = excluded.place,
        via = excluded.via";

async fn add(work: &Work, node: i32, records: &[AuditRecord]) -> Tried<()> {
    if records.is_empty() {
        return Ok(());
    }
    let mut texts = BTreeSet::new();
    for record in records {
        texts.insert(record.token.as_str());
        texts.extend(record.reason.as_deref());
        texts.extend(record.profile.as_ref().map(|(key, _)| key.as_str()));
    }
    let names = ids(work, texts).await?;
    let id = |name: &str| names.get(name).copied();
    let mut columns = Columns::default();
    let mut used: HashMap<(i32, i64), [i64; 3]> = HashMap::new();
    for record in records {
        let Some(outcome) = AuditOutcome::number(&record.outcome) else { continue };
        let token = id(&record.token);
        columns.seq.push(signed(record.seq));
        columns.at.push(record.at.millis());
        columns.token.push(token);
        columns.reason.push(record.reason.as_deref().and_then(id));
        columns.digest_key.push(record.profile.as_ref().and_then(|(key, _)| id(key)));
        columns.operation.push(record.operation.number());
        columns.outcome.push(i16::try_from(outcome).unwrap_or(2));
        columns.count.push(signed(record.count));
        columns.request_id.push(&record.request_id);
        columns.given_id.push(record.given_id.as_ref().map(|digest| &digest.0[..]));
        columns.profile.push(record.profile.as_ref().map(|(_, digest)| &digest.0[..]));
        columns.value.push(record.value.as_ref().map(|digest| &digest.0[..]));
        columns.place.push(record.place.and_then(|place| i32::try_from(place).ok()));
        columns.via.push(record.via.map(RequestVia::name));
        if let Some(token) = token.filter(|_| record.counted() > 0) {
            used.entry((token, record.at.day())).or_default()[outcome] += signed(record.counted());
        }
    }
    let c = &columns;
    work.execute(
        INSERT,
        &[
            &c.seq,
            &c.at,
            &c.token,
            &c.reason,
            &c.digest_key,
            &c.operation,
            &c.outcome,
            &c.count,
            &c.request_id,
            &c.given_id,
            &c.profile,
            &c.value,
            &c.place,
            &c.via,
            &node,
        ],
    )
    .await?;
    count(work, node, used).await
}

async fn count(work: &Work, node: i32, used: HashMap<(i32, i64), [i64; 3]>) -> Tried<()> {
    let (tokens, days): (Vec<i32>, Vec<i64>) = used.keys().copied().unzip();
    let of = |outcome: usize| used.values().map(|counts| counts[outcome]).collect::<Vec<i64>>();
    let add = "INSERT INTO audit_usage (node, token, day, hits, misses, refused)
        SELECT $6, * FROM unnest($1::integer[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[])
        ON CONFLICT (node, token, day) DO UPDATE SET hits = audit_usage.hits + excluded.hits,
            misses = audit_usage.misses + excluded.misses, refused = audit_usage.refused + excluded.refused";
    work.execute(add, &[&tokens, &days, &of(0), &of(1), &of(2), &node]).await?;
    Ok(())
}

async fn add_admin(work: &Work, node: i32, records: &[AdminRecord]) -> Tried<()> {
    if records.is_empty() {
        return Ok(());
    }
    let seq: Vec<i64> = records.iter().map(|record| signed(record.seq)).collect();
    let at: Vec<i64> = records.iter().map(|record| record.entry.time.millis()).collect();
    let ids: Vec<&str> = records.iter().map(|record| record.entry.entry.as_str()).collect();
    let texts = records.iter().map(|record| outbox::to_text(&record.entry));
    let texts: Vec<String> = texts.collect::<Result<_, _>>()?;
    let insert = "INSERT INTO admin_events (node, seq, at, entry, record)
        SELECT DISTINCT ON (seq) $5, seq, at, entry, record
        FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[]) WITH ORDINALITY
            AS given (seq, at, entry, record, place)
        ORDER BY seq, place DESC
        ON CONFLICT (node, seq) DO UPDATE SET at = excluded.at, entry = excluded.entry, record = excluded.record";
    work.execute(insert, &[&seq, &at, &ids, &texts, &node]).await?;
    Ok(())
}
