//! Adding lines to the index.

use std::collections::HashMap;

use contactd_core::store::IndexStep;
use contactd_core::{
    AdminRecord, AuditOutcome, AuditPosition, AuditRecord, NOT_RECORDED, RequestVia, Timestamp,
};
use rusqlite::{Connection, OptionalExtension, Result, Transaction, params};

use crate::ids::Ids;
use crate::outbox;

/// Adds the lines of a step if the index is still at the position where the step begins.
pub(super) fn add_step(index: &Transaction<'_>, step: IndexStep<'_>) -> Result<bool> {
    let mut names = Ids::default();
    let node = names.of(index, "names", step.node)?;
    if position(index, node)? != step.from {
        return Ok(false);
    }
    add(index, &mut names, node, step.records)?;
    add_admin(index, node, step.admin)?;
    correct(index, &mut names, node, step.undisclosed)?;
    move_to(index, node, step.to)?;
    Ok(true)
}

pub(super) fn position(connection: &Connection, node: i64) -> Result<AuditPosition> {
    let mut find =
        connection.prepare_cached("SELECT segment, offset, seq, chain FROM positions WHERE node = ?1")?;
    let position = find.query_row([node], |row| {
        Ok(AuditPosition { segment: row.get(0)?, offset: row.get(1)?, seq: row.get(2)?, chain: row.get(3)? })
    });
    Ok(position.optional()?.unwrap_or_default())
}

pub(super) fn move_to(transaction: &Transaction<'_>, node: i64, to: AuditPosition) -> Result<()> {
    let values = (node, to.segment, to.offset, to.seq, to.chain);
    let moved = transaction.execute("INSERT OR REPLACE INTO positions VALUES (?1, ?2, ?3, ?4, ?5)", values);
    moved.map(|_| ())
}

/// Marks lines as refused that say hit or miss although nothing was disclosed.
fn correct(
    transaction: &Transaction<'_>,
    names: &mut Ids,
    node: i64,
    undisclosed: &[(u64, u64)],
) -> Result<()> {
    for &(from, through) in undisclosed {
        let mut wrong = transaction.prepare(
            "SELECT token, at, outcome, sum(count) FROM events
             WHERE node = ?1 AND seq BETWEEN ?2 AND ?3 AND outcome <> 2 AND via IS NOT 'sandbox'
             GROUP BY token, at / 86400000, outcome",
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
        let reason = names.of(transaction, "names", NOT_RECORDED)?;
        transaction.execute(
            "UPDATE events SET outcome = 2, reason = ?4 WHERE node = ?1 AND seq BETWEEN ?2 AND ?3 AND outcome <> 2",
            (node, from, through, reason),
        )?;
    }
    Ok(())
}

fn add(transaction: &Transaction<'_>, names: &mut Ids, node: i64, records: &[AuditRecord]) -> Result<()> {
    let mut used: HashMap<(i64, i64), [i64; 3]> = HashMap::new();
    let mut insert = transaction.prepare_cached(
        "INSERT OR REPLACE INTO events VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
    )?;
    for record in records {
        let token = names.of(transaction, "names", &record.token)?;
        let Some(outcome) = AuditOutcome::number(&record.outcome) else { continue };
        let reason =
            record.reason.as_ref().map(|reason| names.of(transaction, "names", reason)).transpose()?;
        let (key, profile) = match &record.profile {
            Some((key, digest)) => (Some(names.of(transaction, "names", key)?), Some(digest.0)),
            None => (None, None),
        };
        insert.execute(params![
            node,
            record.seq,
            record.at.millis(),
            record.request_id,
            token,
            record.operation.number(),
            outcome as i64,
            reason,
            key,
            profile,
            record.given_id.map(|digest| digest.0),
            record.value.map(|digest| digest.0),
            record.count,
            record.place,
            record.via.map(RequestVia::name)
        ])?;
        if record.counted() > 0 {
            used.entry((token, record.at.day())).or_default()[outcome] +=
                i64::try_from(record.counted()).unwrap_or(0);
        }
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

fn add_admin(transaction: &Transaction<'_>, node: i64, records: &[AdminRecord]) -> Result<()> {
    let mut insert =
        transaction.prepare_cached("INSERT OR REPLACE INTO admin_events VALUES (?1, ?2, ?3, ?4, ?5)")?;
    for record in records {
        let entry = &record.entry;
        let values = (node, record.seq, entry.time.millis(), &entry.entry, outbox::to_text(entry)?);
        insert.execute(values)?;
    }
    Ok(())
}
