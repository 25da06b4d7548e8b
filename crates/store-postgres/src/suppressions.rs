//! Suppressions: digests and the ids of their keys. One that was taken back stays until every node has seen that.

use async_trait::async_trait;
use contactd_core::store::{Noted, Stored, Suppressions};
use contactd_core::{SubjectDigest, Timestamp};

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
    Ok(work.execute(SUPPRESS, &[&digests, &keys, &times, &work.number]).await?)
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
