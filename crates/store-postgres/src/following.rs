//! What nodes read to follow the database.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use contactd_core::store::copying::{
    AccessChanges, AccessCount, ChangePoint, CopiedDetail, CopiedSource, CopyDigest, DetailsChanges,
    DetailsChunk, DetailsDigest, access_digest,
};
use contactd_core::store::place::{IDS_OF_PLACE, place_of};
use contactd_core::store::{EntityTable, Stored};
use tokio_postgres::Row;

use crate::connecting::Session;
use crate::database::{Counter, LONGEST_STATEMENT, Work};
use crate::failure::{Failure, Tried};
use crate::nodes::{knows, newest};
use crate::sealing::changes_between;
use crate::suppressions::copied;
use crate::usage::unsigned;
use crate::{PostgresStore, entities};

/// Rows that are fetched at once. Few: the thread that receives them has as much priority as lookups, which may be on the same core.
const FETCHED: usize = 500;

const DETAILS: &str =
    "SELECT id, profile, kind, label, confidence, observed_at, value, source, expires_at, basis, import,
    said_by FROM details";

impl PostgresStore {
    /// The id of this database, which stays the same for its whole life, also when it is restored. It is made when it is first
    /// asked for. Fails if the database is not whole: then the id may be about to come.
    pub async fn lineage(&self) -> Stored<String> {
        let id = contactd_core::hex::encode(&crate::database::random_id()?);
        let id = &id;
        let prepare = move |work: Work| async move {
            crate::whole::check(&work).await?;
            let make = "INSERT INTO facts VALUES ('lineage', $1) ON CONFLICT (name) DO NOTHING";
            work.execute(make, &[id]).await?;
            Ok(work.query_one("SELECT value FROM facts WHERE name = 'lineage'", &[]).await?.get(0))
        };
        self.database.prepare(prepare).await
    }

    /// The tokens and suppressions that changed after a number; all of them after -1.
    pub async fn read_access_since(&self, number: i64) -> Stored<AccessChanges> {
        self.database.read(move |work| async move { access_since(&work, number).await }).await
    }

    /// How many tokens and suppressions there are, and the newest change of them.
    pub async fn count_access(&self) -> Stored<(ChangePoint, AccessCount)> {
        let read = move |work: Work| async move {
            let count = "SELECT (SELECT count(*) FROM tokens), (SELECT count(*) FROM suppressions WHERE NOT is_removed)";
            let row = work.query_one(count, &[]).await?;
            let (tokens, suppressions) = (unsigned(row.get(0)), unsigned(row.get(1)));
            Ok((newest(&work, Counter::Access).await?, AccessCount { tokens, suppressions }))
        };
        self.database.read(read).await
    }

    /// The next details in the order of their ids, after an id: about as many as asked for, in whole places. `None` if the
    /// database does not know the change `seen`, which the details before that id contain: it was restored.
    pub async fn read_details_chunk(
        &self,
        after: i64,
        limit: i64,
        seen: &ChangePoint,
    ) -> Stored<Option<DetailsChunk>> {
        let read = move |work: Work| async move {
            if !knows(&work, Counter::Details, seen).await? {
                return Ok(None);
            }
            let read = format!("{DETAILS} WHERE id > $1 ORDER BY id LIMIT $2");
            let rows = work.query(&read, &[&after, &limit]).await?;
            let mut details: Vec<CopiedDetail> = rows.iter().map(detail).collect();
            let is_last = i64::try_from(details.len()).unwrap_or(i64::MAX) < limit;
            let through = match details.last() {
                Some(last) if !is_last => {
                    let end = place_of(last.id) + IDS_OF_PLACE - 1;
                    let rest = format!("{DETAILS} WHERE id > $1 AND id <= $2 ORDER BY id");
                    details.extend(work.query(&rest, &[&last.id, &end]).await?.iter().map(detail));
                    Some(end)
                }
                _ => None,
            };
            let at = newest(&work, Counter::Details).await?;
            Ok(Some(DetailsChunk { details, sources: sources(&work).await?, through, at }))
        };
        self.database.read(read).await
    }

    /// Passes everything about details that changed after a number to `take`, part by part and in one snapshot. Returns the
    /// newest change that this contains. It is not repeated: after an error, whoever asked begins again.
    pub async fn read_details_since<F>(&self, number: i64, take: F) -> Stored<ChangePoint>
    where
        F: FnMut(DetailsChanges) -> Stored<()> + Send,
    {
        let take = parking_lot::Mutex::new(take);
        let take = &take;
        let mut read = move |work: Work| async move {
            let give = |part: DetailsChanges| {
                let mut take = take.lock();
                (*take)(part).map_err(Failure::Store)
            };
            let at = newest(&work, Counter::Details).await?;
            if at.number <= number {
                return Ok(at);
            }
            give(DetailsChanges { sources: sources(&work).await?, ..DetailsChanges::default() })?;
            let changed = format!("{DETAILS} WHERE number > $1 ORDER BY id");
            let mut changed = work.cursor("changed", &changed, &[&number]).await?;
            let mut held: Vec<CopiedDetail> = Vec::new();
            loop {
                let rows = changed.next(FETCHED).await?;
                held.extend(rows.iter().map(detail));
                // In whole places: there may be more of the last one, unless these are the last rows.
                let last = held.last().map(|detail| place_of(detail.id)).filter(|_| !rows.is_empty());
                let whole = held.partition_point(|detail| Some(place_of(detail.id)) != last);
                let rest = held.split_off(whole);
                give(DetailsChanges { details: held, ..DetailsChanges::default() })?;
                held = rest;
                if rows.is_empty() {
                    break;
                }
            }
            // A place that has details again has no tombstone any more; if it has, the details count.
            let emptied = format!(
                "SELECT place FROM tombstones WHERE number > $1 AND NOT EXISTS (
                     SELECT 1 FROM details WHERE id BETWEEN place AND place + {}) ORDER BY place",
                IDS_OF_PLACE - 1
            );
            let mut emptied = work.cursor("emptied", &emptied, &[&number]).await?;
            loop {
                let rows = emptied.next(FETCHED).await?;
                if rows.is_empty() {
                    return Ok(at);
                }
                let emptied = rows.iter().map(|row| row.get(0)).collect();
                give(DetailsChanges { emptied, ..DetailsChanges::default() })?;
            }
        };
        self.database.read_once(&mut read).await.map_err(Into::into)
    }

    /// Whether at least this many details changed, or places were emptied, after a number.
    pub async fn has_changed_details(&self, number: i64, least: i64) -> Stored<bool> {
        let count = "SELECT count(*) >= $2 FROM (SELECT 1 FROM details WHERE number > $1
            UNION ALL SELECT 1 FROM tombstones WHERE number > $1 LIMIT $2) AS changed";
        Ok(self.database.query_one(count, &[&number, &least]).await?.get(0))
    }

    /// Reads everything in one snapshot and computes its digest, as a copy does.
    pub async fn digest(&self) -> Stored<CopyDigest> {
        let mut read = move |work: Work| async move {
            let names = sources(&work).await?;
            let names: HashMap<i64, String> = names.into_iter().map(|s| (s.id, s.name)).collect();
            let mut digest = DetailsDigest::default();
            let mut all = work.cursor("everything", &format!("{DETAILS} ORDER BY id"), &[]).await?;
            loop {
                let rows = all.next(FETCHED).await?;
                for detail in rows.iter().map(detail) {
                    digest.add(&detail, names.get(&detail.source).map_or("", String::as_str));
                }
                if rows.is_empty() {
                    break;
                }
            }
            let AccessChanges { mut tokens, mut suppressions, at, .. } = access_since(&work, -1).await?;
            suppressions.retain(|suppression| !suppression.is_removed);
            let (profiles, details, details_digest) = digest.finish();
            Ok(CopyDigest {
                details_number: newest(&work, Counter::Details).await?.number,
                access_number: at.number,
                profiles,
                details,
                tokens: tokens.len() as u64,
                suppressions: suppressions.len() as u64,
                details_digest,
                access_digest: access_digest(&mut tokens, &mut suppressions),
            })
        };
        self.database.read_once(&mut read).await.map_err(Into::into)
    }

    /// Begins to listen for changes.
    pub async fn listen(&self) -> Stored<Listening<'_>> {
        let session = async {
            let session = self.database.session().await?;
            let listen = async { session.batch_execute("LISTEN contactd").await };
            match self.database.within(LONGEST_STATEMENT, listen).await {
                Ok(()) => Ok(session),
                Err(failure) => {
                    self.database.give_up(&session);
                    Err(failure)
                }
            }
        };
        Ok(Listening { store: self, session: session.await? })
    }

    /// Sleeps. Works on every thread.
    pub fn sleep(&self, time: Duration) -> impl Future<Output = ()> + Send {
        self.database.sleep(time)
    }
}

/// A connection that hears of changes. It says nothing if its host is frozen, so whoever waits also looks by itself from time
/// to time.
pub struct Listening<'a> {
    store: &'a PostgresStore,
    session: Arc<Session>,
}

impl Listening<'_> {
    /// Returns when something was changed, or after this time at the latest. False if the connection has ended, or if others go to
    /// another host by now: a primary that was replaced may go on, and has nothing new to say.
    pub async fn wait(&self, most: Duration) -> bool {
        let sleep = self.store.database.sleep(most);
        tokio::select! {
            () = self.session.heard.changes.notified() => {}
            () = sleep => {}
        }
        !self.session.is_closed() && self.store.database.is_current(&self.session)
    }
}

async fn access_since(work: &Work, number: i64) -> Tried<AccessChanges> {
    let suppressions = "SELECT digest, key, suppressed_at, is_removed FROM suppressions WHERE number > $1 ORDER BY digest, key";
    let suppressions = work.query(suppressions, &[&number]).await?;
    let at = newest(work, Counter::Access).await?;
    let from = if number > 0 { number } else { at.number };
    Ok(AccessChanges {
        tokens: entities::list_since(work, EntityTable::Tokens, number).await?,
        suppressions: suppressions.iter().map(copied).collect(),
        changes: changes_between(work, Counter::Access, from - 1, at.number).await?,
        at,
    })
}

async fn sources(work: &Work) -> Tried<Vec<CopiedSource>> {
    let rows = work.query("SELECT id, name, max_age FROM sources ORDER BY id", &[]).await?;
    let source = |row: &Row| CopiedSource {
        id: i64::from(row.get::<_, i32>(0)),
        name: row.get(1),
        max_age: row.get(2),
    };
    Ok(rows.iter().map(source).collect())
}

fn detail(row: &Row) -> CopiedDetail {
    CopiedDetail {
        id: row.get(0),
        profile: row.get(1),
        kind: i64::from(row.get::<_, i16>(2)),
        label: i64::from(row.get::<_, i16>(3)),
        confidence: i64::from(row.get::<_, i16>(4)),
        observed_at: row.get(5),
        value: row.get(6),
        source: i64::from(row.get::<_, i32>(7)),
        expires_at: row.get(8),
        basis: row.get(9),
        import: row.get(10),
        said_by: row.get(11),
    }
}
