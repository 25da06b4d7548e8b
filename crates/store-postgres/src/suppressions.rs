//! Suppressions: digests and the ids of their keys. One that was taken back stays until every node has seen that.

use std::collections::BTreeMap;

use async_trait::async_trait;
use contactd_core::store::copying::CopiedSuppression;
use contactd_core::store::sealing::BoundRow;
use contactd_core::store::{Noted, Stored, Suppressions};
use contactd_core::{SubjectDigest, Timestamp};
use tokio_postgres::Row;

use crate::database::{Counter, Work};
use crate::failure::{Failure, Tried};
use crate::{PostgresStore, outbox};

/// $1 digests, $2 keys, $3 times, $4 the number of the change. Of one that is given twice, the earliest time counts.
const SUPPRESS: &str = "INSERT INTO suppressions (digest, key, suppressed_at, number)
    SELECT digest, key, min(at), $4 FROM unnest($1::bytea[], $2::text[], $3::bigint[]) AS given (digest, key, at)
    GROUP BY digest, key
    ON CONFLICT (digest, key) DO UPDATE
        SET is_removed = FALSE, suppressed_at = excluded.suppressed_at, number = excluded.number
        WHERE suppressions.is_removed";

/// $1 digests, $2 keys, $3 the number of the change.
const UNSUPPRESS: &str = "UPDATE suppressions SET is_removed = TRUE, number = $3
    FROM (SELECT DISTINCT * FROM unnest($1::bytea[], $2::text[])) AS given (digest, key)
    WHERE suppressions.digest = given.digest AND suppressions.key = given.key AND NOT is_removed";

#[async_trait]
impl Suppressions for PostgresStore {
    async fn suppress(&self, subjects: &[SubjectDigest], at: Timestamp, entry: Noted<'_>) -> Stored<u64> {
        let change = move |work: Work| async move {
            let changed = add(&work, subjects.iter().map(|subject| (subject, at))).await?;
            note(&work, entry, subjects, changed).await
        };
        self.database.change(Counter::Access, change).await
    }

    async fn unsuppress(&self, subjects: &[SubjectDigest], entry: Noted<'_>) -> Stored<u64> {
        let change = move |work: Work| async move {
            let (digests, keys) = columns(subjects);
            for row in held(&work, &digests, &keys).await? {
                work.replace(Some((&row).into()), None);
            }
            let changed = work.execute(UNSUPPRESS, &[&digests, &keys, &work.number]).await?;
            note(&work, entry, subjects, changed).await
        };
        self.database.change(Counter::Access, change).await
    }

    async fn find_suppression(&self, subjects: &[SubjectDigest]) -> Stored<Option<Timestamp>> {
        let (digests, keys) = columns(subjects);
        let find = "SELECT min(suppressed_at) FROM suppressions
            JOIN unnest($1::bytea[], $2::text[]) AS given (digest, key)
                ON suppressions.digest = given.digest AND suppressions.key = given.key
            WHERE NOT is_removed";
        let earliest: Option<i64> = self.database.query_one(find, &[&digests, &keys]).await?.get(0);
        Ok(earliest.map(Timestamp::from_millis))
    }

    async fn list_suppressions(&self) -> Stored<Vec<SubjectDigest>> {
        let list = "SELECT key, digest FROM suppressions WHERE NOT is_removed ORDER BY digest, key";
        let rows = self.database.query(list, &[]).await?;
        rows.iter().map(|row| Ok(subject(row.get(0), row.get(1))?)).collect()
    }
}

/// Suppresses subjects, each since its time. Returns how many were not suppressed before.
pub(crate) async fn add(
    work: &Work,
    subjects: impl Iterator<Item = (&SubjectDigest, Timestamp)>,
) -> Tried<u64> {
    let (mut digests, mut keys, mut times) = (Vec::new(), Vec::new(), Vec::new());
    for (subject, at) in subjects {
        digests.push(&subject.bytes[..]);
        keys.push(subject.key.as_str());
        times.push(at.millis());
    }
    // Computed from what was given: what the database says that it stored need not be that.
    let mut new: BTreeMap<(Vec<u8>, String), i64> = BTreeMap::new();
    for ((digest, key), at) in digests.iter().zip(&keys).zip(&times) {
        let first = new.entry((digest.to_vec(), (*key).to_owned()));
        first.and_modify(|first| *first = (*first).min(*at)).or_insert(*at);
    }
    for row in held(work, &digests, &keys).await? {
        new.remove(&(row.digest, row.key));
    }
    for ((digest, key), at) in new {
        work.replace(None, Some(BoundRow::Suppression(&digest, &key, at)));
    }
    Ok(work.execute(SUPPRESS, &[&digests, &keys, &times, &work.number]).await?)
}

/// Which of these are suppressed, if that has to be known for a seal.
async fn held(work: &Work, digests: &[&[u8]], keys: &[&str]) -> Tried<Vec<CopiedSuppression>> {
    if !work.is_sealed() {
        return Ok(Vec::new());
    }
    let held = "SELECT digest, key, suppressed_at, is_removed FROM suppressions
        WHERE NOT is_removed AND (digest, key) IN (SELECT * FROM unnest($1::bytea[], $2::text[]))";
    Ok(work.query(held, &[&digests, &keys]).await?.iter().map(copied).collect())
}

/// A row as nodes copy it.
pub(crate) fn copied(row: &Row) -> CopiedSuppression {
    CopiedSuppression {
        digest: row.get(0),
        key: row.get(1),
        suppressed_at: row.get(2),
        is_removed: row.get(3),
    }
}

fn columns(subjects: &[SubjectDigest]) -> (Vec<&[u8]>, Vec<&str>) {
    subjects.iter().map(|subject| (&subject.bytes[..], subject.key.as_str())).unzip()
}

async fn note(work: &Work, entry: Noted<'_>, subjects: &[SubjectDigest], changed: u64) -> Tried<u64> {
    outbox::add(work, entry, &[("subjects", subjects.len() as u64), ("changed", changed)]).await?;
    Ok(changed)
}

fn subject(key: String, digest: &[u8]) -> Tried<SubjectDigest> {
    let bytes = digest.try_into().map_err(|_| Failure::damaged("a suppression"))?;
    Ok(SubjectDigest { key, bytes })
}
