//! The nodes of the cluster: which there are, how far each is, and how long each may answer.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use contactd_core::store::copying::ChangePoint;
use contactd_core::store::{StoreError, Stored};
use contactd_core::{Clock, SystemClock, Timestamp};
use tokio_postgres::Row;

use crate::PostgresStore;
use crate::connecting::Session;
use crate::connecting::Values;
use crate::database::{Counter, Database, Work};
use crate::failure::{Failure, Tried};
use crate::usage::unsigned;

/// A node of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterNode {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The version of contactd that it runs.
    pub version: String,
    /// When it was registered.
    pub joined_at: Timestamp,
    /// When its last heartbeat was committed, by the clock of the database.
    pub seen_at: Timestamp,
    /// How long ago that is.
    pub silent_for: Duration,
    /// How long it may answer after a heartbeat; zero if it has given its lease back.
    pub lease: Duration,
    /// Whether it was stopped in order.
    pub has_left: bool,
    /// Whether its copy is complete, and its journal can be written.
    pub is_ready: bool,
    /// The last change of tokens and suppressions that its copy contains.
    pub access_number: i64,
    /// The last change of details that its copy contains.
    pub details_number: i64,
    /// The last change of details of which no removed values are left in its files.
    pub wiped_number: i64,
    /// How many opt-outs and limits of tokens it holds that this database has lost.
    pub held: u64,
    /// By how many milliseconds its clock is ahead of the database's, if it has compared them.
    pub clock_ahead_ms: Option<i64>,
}

impl ClusterNode {
    /// Whether it may answer lookups.
    pub fn may_answer(&self) -> bool {
        !self.lease.is_zero() && self.silent_for < self.lease
    }
}

/// Who says something as a node.
#[derive(Clone, Copy, Debug)]
pub struct Speaker<'a> {
    /// The id of the node.
    pub node: &'a str,
    /// A random id of the process.
    pub process: &'a [u8],
    /// Higher than that of everything it has said before: what comes late changes nothing.
    pub beat: i64,
}

/// What a node says when it joins.
#[derive(Clone, Debug)]
pub struct Registration<'a> {
    /// Who says it.
    pub speaker: Speaker<'a>,
    /// Its name.
    pub name: &'a str,
    /// The version of contactd that it runs.
    pub version: &'a str,
    /// Its data directory, if that is known: one in which only one process can run at a time.
    pub data_dir: Option<&'a [u8]>,
    /// The last change of details in its copy: what changes afterwards is kept for it.
    pub details_number: i64,
    /// The last change of details of which no removed values are left in its files.
    pub wiped_number: i64,
}

/// What a node says in a heartbeat.
#[derive(Clone, Debug)]
pub struct Heartbeat<'a> {
    /// Who says it.
    pub speaker: Speaker<'a>,
    /// How long it wants to answer from now on; zero to ask for nothing, which is always granted.
    pub lease: Duration,
    /// Whether its copy is complete, and its journal can be written.
    pub is_ready: bool,
    /// The last change of tokens and suppressions in its copy.
    pub access: &'a ChangePoint,
    /// The last change of details in its copy.
    pub details_number: i64,
    /// The last change of details of which no removed values are left in its files.
    pub wiped_number: i64,
    /// How many opt-outs and limits of tokens it holds that the database has lost.
    pub held: u64,
    /// By how many milliseconds its clock is ahead of the database's.
    pub clock_ahead_ms: i64,
}

/// How the clock of this machine compares with others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeClock {
    /// By how many milliseconds it is ahead of the database's; less than 0 if it is behind.
    pub ahead_ms: i64,
    /// How long the question took: the difference is uncertain by half of that.
    pub round_trip: Duration,
    /// By how many milliseconds those of the other nodes are ahead that may answer lookups.
    pub others: Vec<i64>,
}

/// The answer to a heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeartbeatAnswer {
    /// The lease is renewed.
    Renewed,
    /// It is not renewed: there are newer changes of tokens and suppressions, or the database has another history.
    Behind,
    /// There is no such node: it was forgotten, the database was restored, or another process has taken its place.
    Unknown,
}

/// What became of a node that was to be forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forgotten {
    /// It is forgotten.
    Done,
    /// Its lease lasts, so it may answer lookups. Stop it first, or wait until its lease ends.
    Alive,
    /// There is none with this id.
    Unknown,
}

/// The newest changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewestChanges {
    /// Of tokens and suppressions.
    pub access: ChangePoint,
    /// Of details.
    pub details: ChangePoint,
}

const NODES: &str = "SELECT id, name, version, (extract(epoch FROM joined_at) * 1000)::bigint,
        (extract(epoch FROM seen_at) * 1000)::bigint,
        greatest(0, extract(epoch FROM clock_timestamp() - seen_at) * 1000)::bigint,
        lease_ms, is_ready, access_number, details_number, wiped_number, held, clock_ahead_ms
    FROM nodes ORDER BY name, id";

impl PostgresStore {
    /// Whether there is a node with this id.
    pub async fn has_node(&self, id: &str) -> Stored<bool> {
        let select = "SELECT EXISTS (SELECT 1 FROM nodes WHERE id = $1)";
        Ok(self.database.query_one(select, &[&id]).await?.get(0))
    }

    /// Registers a process as a node, without a lease. False if another process may still run as this node: its lease lasts, or
    /// it said something a moment ago, and it does not have the same data directory.
    pub async fn register_node(&self, registration: &Registration<'_>) -> Stored<bool> {
        // A process without a lease says something every second.
        let register = "INSERT INTO nodes AS held (id, name, version, process, beat, details_number, wiped_number, data_dir)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
            ON CONFLICT (id) DO UPDATE SET name = excluded.name, version = excluded.version, seen_at = now(), lease_ms = 0,
                is_ready = FALSE, process = excluded.process, beat = excluded.beat,
                details_number = excluded.details_number, wiped_number = excluded.wiped_number, data_dir = excluded.data_dir
            WHERE held.process IS NULL OR held.process <> excluded.process AND held.data_dir = excluded.data_dir OR held.process = excluded.process AND held.beat < excluded.beat
                OR held.process <> excluded.process
                    AND clock_timestamp() > held.seen_at + greatest(held.lease_ms, 2000) * interval '1 millisecond'";
        let prepare = move |work: Work| async move {
            let Registration { speaker, name, version, data_dir, details_number, wiped_number } =
                registration;
            let Speaker { node, process, beat } = speaker;
            let values: Values<'_> =
                &[node, name, version, process, beat, details_number, wiped_number, data_dir];
            work.execute(register, values).await?;
            let is_ours = "SELECT process = $2 FROM nodes WHERE id = $1";
            Ok(work.query_one(is_ours, &[node, process]).await?.get::<_, Option<bool>>(0) == Some(true))
        };
        self.database.prepare(prepare).await
    }

    /// Renews the lease of a node, if its copy has the newest change of tokens and suppressions. One statement, committed as
    /// durably as every change. It is not repeated: the node asks again.
    pub async fn heartbeat(&self, heartbeat: &Heartbeat<'_>) -> Stored<HeartbeatAnswer> {
        // The lock makes every change of tokens and suppressions come before or after this. If it comes after, whoever made it
        // sees this lease and waits for it; if it comes before, the number is not the newest any more.
        let beat = "WITH newest AS MATERIALIZED (
                SELECT number FROM counters WHERE counter = 'access' AND $2 > 0::bigint FOR SHARE),
            beaten AS (
                UPDATE nodes SET seen_at = now(), lease_ms = $2, is_ready = $3, access_number = $4, details_number = $6,
                    wiped_number = $7, beat = $9, held = $10, clock_ahead_ms = $11
                WHERE id = $1 AND process = $8 AND beat < $9 AND ($2 = 0::bigint OR (
                    (SELECT number FROM newest) = $4
                    AND ($4 = 0::bigint OR EXISTS (
                        SELECT 1 FROM changes WHERE counter = 'access' AND number = $4 AND id = $5))))
                RETURNING 1)
            SELECT EXISTS (SELECT 1 FROM beaten), EXISTS (SELECT 1 FROM nodes WHERE id = $1 AND process = $8)";
        let lease = i64::try_from(heartbeat.lease.as_millis()).unwrap_or(i64::MAX);
        let held = heartbeat.held.cast_signed();
        let Heartbeat { speaker, is_ready, access, details_number, wiped_number, .. } = heartbeat;
        let Speaker { node, process, beat: number } = speaker;
        let beaten = async {
            let session = self.database.session().await?;
            // Whatever goes wrong: what was sent and has not arrived yet never does.
            let unanswered = Unanswered { database: &self.database, session: Some(&session) };
            session.heard.gave_up_waiting.store(false, Ordering::SeqCst);
            let beat = async {
                session
                    .query_one(
                        beat,
                        &[
                            node,
                            &lease,
                            is_ready,
                            &access.number,
                            &access.id,
                            details_number,
                            wiped_number,
                            process,
                            number,
                            &held,
                            &heartbeat.clock_ahead_ms,
                        ],
                    )
                    .await
            };
            let row = self.database.within(self.database.statement, beat).await?;
            if session.heard.gave_up_waiting.load(Ordering::SeqCst) {
                // It may be lost, so it does not count.
                return Err(Failure::Silent);
            }
            unanswered.keep();
            self.database.keep(Arc::clone(&session));
            Ok(match (row.get(0), row.get(1)) {
                (true, _) => HeartbeatAnswer::Renewed,
                (false, true) => HeartbeatAnswer::Behind,
                (false, false) => HeartbeatAnswer::Unknown,
            })
        };
        match beaten.await {
            Ok(answer) => Ok(answer),
            Err(failure) => Err(self.database.explained(failure, false).await),
        }
    }

    /// Compares this machine's clock with the database's, and with those of the other nodes.
    pub async fn compare_clock(&self, node: &str) -> Stored<NodeClock> {
        let compare = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint, array(SELECT clock_ahead_ms FROM nodes
            WHERE id <> $1 AND clock_ahead_ms IS NOT NULL AND clock_timestamp() < seen_at + lease_ms * interval '1 millisecond')";
        // The first question may have to connect.
        self.database.query_one(compare, &[&node]).await?;
        let (began, now) = (Instant::now(), SystemClock.now().millis());
        let row = self.database.query_one(compare, &[&node]).await?;
        let round_trip = began.elapsed();
        let half = i64::try_from(round_trip.as_millis() / 2).unwrap_or(0);
        Ok(NodeClock { ahead_ms: now + half - row.get::<_, i64>(0), round_trip, others: row.get(1) })
    }

    /// Gives the lease of a node back: it answers nothing any more, and nobody waits for it. Changes nothing if another process
    /// has taken its place.
    pub async fn leave(&self, node: &str, process: &[u8]) -> Stored<()> {
        let leave = "UPDATE nodes SET lease_ms = -1, is_ready = FALSE, seen_at = now(), process = NULL
            WHERE id = $1 AND process = $2";
        self.database.execute(leave, &[&node, &process]).await.map(|_| ())
    }

    /// All nodes, by name.
    pub async fn list_nodes(&self) -> Stored<Vec<ClusterNode>> {
        Ok(self.database.query(NODES, &[]).await?.iter().map(node).collect())
    }

    /// Forgets a node: nothing is kept for it and nobody waits for it. One that may still answer lookups is not forgotten.
    pub async fn forget_node(&self, id: &str) -> Stored<Forgotten> {
        let prepare = move |work: Work| async move {
            let forget = "DELETE FROM nodes WHERE id = $1
                AND clock_timestamp() > seen_at + lease_ms * interval '1 millisecond'";
            if work.execute(forget, &[&id]).await? > 0 {
                // What it has stored as usage counts from now on.
                work.execute("DELETE FROM quota_leases WHERE node = $1", &[&id]).await?;
                return Ok(Forgotten::Done);
            }
            let left = work.query_opt("SELECT 1 FROM nodes WHERE id = $1", &[&id]).await?;
            Ok(if left.is_some() { Forgotten::Alive } else { Forgotten::Unknown })
        };
        self.database.prepare(prepare).await
    }

    /// The newest changes.
    pub async fn numbers(&self) -> Stored<NewestChanges> {
        let read = move |work: Work| async move {
            Ok(NewestChanges {
                access: newest(&work, Counter::Access).await?,
                details: newest(&work, Counter::Details).await?,
            })
        };
        self.database.read(read).await
    }

    /// The newest number of tokens and suppressions: in the database, or committed by this process, if the host that was asked is not
    /// the primary any more and does not know that.
    pub async fn newest_access(&self) -> Stored<i64> {
        Ok(self.numbers().await?.access.number.max(self.database.newest_committed(Counter::Access)))
    }

    /// The same for details.
    pub async fn newest_details(&self) -> Stored<i64> {
        Ok(self.numbers().await?.details.number.max(self.database.newest_committed(Counter::Details)))
    }

    /// Whether the database still knows this change of tokens and suppressions. If not, it was restored to an earlier point, or
    /// what a node needs to go on from there was removed.
    pub async fn knows_access(&self, point: &ChangePoint) -> Stored<bool> {
        self.knows(Counter::Access, point).await
    }

    /// The same for a change of details.
    pub async fn knows_details(&self, point: &ChangePoint) -> Stored<bool> {
        self.knows(Counter::Details, point).await
    }

    async fn knows(&self, counter: Counter, point: &ChangePoint) -> Stored<bool> {
        if self.database.read(move |work| async move { knows(&work, counter, point).await }).await? {
            return Ok(true);
        }
        // A former primary that still runs may not know it either. It cannot commit, so this looks again in a transaction that writes.
        let write = "SELECT pg_logical_emit_message(TRUE, 'contactd', '')::text";
        let look = move |work: Work| async move {
            work.query_one(write, &[]).await?;
            knows(&work, counter, point).await
        };
        if self.database.prepare_without_waiting(look).await? {
            let what = "the host that was asked first is not the primary any more";
            return Err(StoreError::Unavailable(format!("PostgreSQL: {what}")));
        }
        Ok(false)
    }
}

/// A connection on which something was sent. It is given up when this is dropped, unless it was answered.
struct Unanswered<'a> {
    database: &'a Database,
    session: Option<&'a Session>,
}

impl Unanswered<'_> {
    fn keep(mut self) {
        self.session = None;
    }
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        if let Some(session) = self.session {
            self.database.give_up(session);
        }
    }
}

fn node(row: &Row) -> ClusterNode {
    let length = |column: usize| Duration::from_millis(u64::try_from(row.get::<_, i64>(column)).unwrap_or(0));
    ClusterNode {
        id: row.get(0),
        name: row.get(1),
        version: row.get(2),
        joined_at: Timestamp::from_millis(row.get(3)),
        seen_at: Timestamp::from_millis(row.get(4)),
        silent_for: length(5),
        lease: length(6),
        has_left: row.get::<_, i64>(6) < 0,
        is_ready: row.get(7),
        access_number: row.get(8),
        details_number: row.get(9),
        wiped_number: row.get(10),
        held: unsigned(row.get(11)),
        clock_ahead_ms: row.get(12),
    }
}

/// The newest change of a counter.
pub(crate) async fn newest(work: &Work, counter: Counter) -> Tried<ChangePoint> {
    let find = "SELECT number, coalesce((SELECT id FROM changes WHERE changes.counter = counters.counter
                    AND changes.number = counters.number), ''::bytea)
                FROM counters WHERE counter = $1";
    let row = work.query_one(find, &[&counter.name()]).await?;
    Ok(ChangePoint { number: row.get(0), id: row.get(1) })
}

pub(crate) async fn knows(work: &Work, counter: Counter, point: &ChangePoint) -> Tried<bool> {
    if point.number == 0 {
        // Nothing was made yet, so nothing can be missing but what was removed since.
        let kept = "SELECT NOT EXISTS (SELECT 1 FROM counters WHERE counter = $1 AND number > 0)
            OR EXISTS (SELECT 1 FROM changes WHERE counter = $1 AND number = 1)";
        return Ok(work.query_one(kept, &[&counter.name()]).await?.get(0));
    }
    let find = "SELECT EXISTS (SELECT 1 FROM changes WHERE counter = $1 AND number = $2 AND id = $3)";
    Ok(work.query_one(find, &[&counter.name(), &point.number, &point.id]).await?.get(0))
}
