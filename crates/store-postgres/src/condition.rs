//! How the database is: what keeps it from answering or from committing, in words that an operator can do something about.

use std::sync::Arc;
use std::time::{Duration, Instant};

use contactd_core::store::Stored;
use futures_util::FutureExt as _;
use tokio_postgres::error::SqlState;

use crate::connecting::Session;
use crate::database::Database;
use crate::failure::{DISK_FULL, Failure, Tried};
use crate::url::StoreUrl;
use crate::{PostgresStore, Settings};

/// How long a look may take, with connecting.
const LONGEST_LOOK: Duration = Duration::from_secs(4);
/// A commit that has waited for a standby for this long does not wait for a busy one.
const LONG_WAIT: Duration = Duration::from_secs(1);
/// A round trip that makes every change slow.
pub const SLOW: Duration = Duration::from_millis(250);

/// How the primary is at a moment.
#[derive(Clone, Debug)]
pub struct Condition {
    /// How long a question and its answer took.
    pub round_trip: Duration,
    /// The standbys that commits wait for, as `synchronous_standby_names` has them; empty if they wait for none.
    pub synchronous: String,
    /// How many standbys are connected.
    pub standbys: u64,
    /// For how long a commit has waited for a standby, if it is long.
    pub waits_for_standby: Option<Duration>,
    /// A transaction of somebody else that keeps us from our tables, or may.
    pub foreign: Option<Foreign>,
    /// How many connections it has, and how many users may have.
    pub connections: (u64, u64),
    /// How many hosts the URL names.
    pub hosts: usize,
    /// Whether its disk is full, if that was asked.
    pub is_disk_full: bool,
}

/// A transaction of somebody else that holds locks on our tables, or that one of our connections waits for.
#[derive(Clone, Debug)]
pub struct Foreign {
    /// The process of the server.
    pub pid: i32,
    /// Whose it is: the name of the program and the user.
    pub whose: String,
    /// For how many seconds it has lasted, if this user may know that.
    pub seconds: Option<i64>,
    /// Whether one of our connections waits for it, or nobody else can change a table meanwhile.
    pub blocks: bool,
}

impl Foreign {
    fn words(&self) -> String {
        let Self { pid, whose, seconds, .. } = self;
        let lasts = seconds.map(|seconds| format!(", for {seconds} s")).unwrap_or_default();
        format!(
            "another program ({whose}, backend pid {pid}) blocks contactd's tables with an open transaction{lasts}: commit or roll back \
             there; or run, as its owner or a superuser, SELECT pg_terminate_backend({pid})"
        )
    }
}

/// Why nobody can say how the database is.
#[derive(Clone, Debug)]
pub struct NoCondition {
    /// What is wrong, and what to do.
    pub what: String,
    /// Whether it answers, and takes too long for that.
    pub is_slow: bool,
}

impl From<Failure> for NoCondition {
    fn from(failure: Failure) -> Self {
        Self { what: failure.what(), is_slow: matches!(failure, Failure::Slow(_)) }
    }
}

/// What an answer that takes this long means, and what to do.
pub fn slow_words(round_trip: Duration) -> String {
    format!(
        "it answers, but slowly: one answer takes {} ms. Look at the network in between and at the load of the database; every change \
         takes several round trips, and lookups go on while the lease is renewed",
        round_trip.as_millis()
    )
}

impl Condition {
    /// Why a failover can lose what was acknowledged.
    pub fn risk(&self) -> Option<&'static str> {
        let can_fail_over = self.standbys > 0 || self.hosts > 1;
        (self.synchronous.is_empty() && can_fail_over).then_some(
            "it acknowledges changes before a standby has them: a failover can lose opt-outs and revocations",
        )
    }

    /// What keeps others from changing anything, and what to do about it.
    pub fn obstacle(&self) -> Option<String> {
        if let Some(foreign) = self.foreign.as_ref().filter(|foreign| foreign.blocks) {
            return Some(foreign.words());
        }
        if self.is_disk_full {
            return Some(DISK_FULL.to_owned());
        }
        let waits = self.waits_for_standby.filter(|waits| *waits > LONG_WAIT)?;
        Some(format!(
            "commits hang, one for {} s: no standby confirms them (synchronous_standby_names is '{}', {} standbys are connected). Start one \
             that synchronous_standby_names names, or look at its log",
            waits.as_secs(),
            self.synchronous,
            self.standbys
        ))
    }
}

const LOOK: &str = "SELECT current_setting('synchronous_standby_names'),
    (SELECT count(*) FROM pg_stat_replication),
    (SELECT (extract(epoch FROM max(clock_timestamp() - query_start)) * 1000)::bigint FROM pg_stat_activity
        WHERE wait_event = 'SyncRep' AND usename = current_user),
    (SELECT count(*) FROM pg_stat_activity WHERE coalesce(backend_type = 'client backend', usesysid IS NOT NULL)),
    current_setting('max_connections')::bigint - current_setting('superuser_reserved_connections')::bigint";

/// Whoever one of our connections waits for. Then who holds locks on our tables that may keep us waiting: reading, VACUUM and ANALYZE
/// lock none of us out. The type of a backend is hidden from other users; an autovacuum has no user, and ends by itself.
const FOREIGN: &str = "WITH ours AS MATERIALIZED (
        SELECT DISTINCT unnest(pg_blocking_pids(pid)) AS pid FROM pg_stat_activity
        WHERE application_name = current_setting('application_name') AND datname = current_database()),
    holders AS (
        SELECT pid, bool_or(mode NOT IN ('RowShareLock', 'RowExclusiveLock')) AS locks_out FROM pg_locks
        WHERE granted AND mode NOT IN ('AccessShareLock', 'ShareUpdateExclusiveLock')
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
            AND relation IN (SELECT oid FROM pg_class WHERE relnamespace = to_regnamespace('contactd'))
        GROUP BY pid)
    SELECT pid, coalesce(nullif(application_name, ''), 'unnamed') || ', database user ' || coalesce(usename, '?'),
        extract(epoch FROM clock_timestamp() - xact_start)::bigint,
        ours.pid IS NOT NULL OR coalesce(locks_out, FALSE) AS blocks
    FROM pg_stat_activity LEFT JOIN ours USING (pid) LEFT JOIN holders USING (pid)
    WHERE application_name <> current_setting('application_name')
        AND (ours.pid IS NOT NULL
            OR locks_out IS NOT NULL AND coalesce(backend_type = 'client backend', usesysid IS NOT NULL))
    ORDER BY ours.pid IS NULL, NOT coalesce(locks_out, FALSE), xact_start LIMIT 1";

impl PostgresStore {
    /// Looks how the database is, on a connection of its own, within a few seconds.
    pub async fn condition(url: &StoreUrl) -> Result<Condition, NoCondition> {
        let (patience, answer) = (Duration::ZERO, LONGEST_LOOK);
        let settings =
            Settings { url: url.clone(), patience, answer, makes_tables: false, on_wait: Box::new(|| {}) };
        Ok(Database::new(settings).map_err(Failure::from)?.condition(true).await?)
    }

    /// The same for this database.
    pub async fn own_condition(&self) -> Stored<Condition> {
        Ok(self.database.condition(false).await?)
    }
}

impl Database {
    async fn condition(&self, probes_disk: bool) -> Tried<Condition> {
        let look = async {
            let session = self.new_session().await?;
            let looked = look(&session, self.connecting.hosts()).await;
            let looked = match looked {
                Ok(condition) if probes_disk => {
                    Ok(Condition { is_disk_full: is_disk_full(&session).await, ..condition })
                }
                looked => looked,
            };
            session.cut();
            looked
        };
        let connecting = Arc::clone(&self.connecting);
        let round_trip = self.spawn(async move { connecting.round_trip().await });
        match self.within(LONGEST_LOOK, look).await {
            // Connecting takes about eight round trips.
            Err(Failure::Silent) => Err(match round_trip.now_or_never() {
                Some(Ok(Some(round_trip))) if round_trip > SLOW => Failure::Slow(round_trip),
                _ => Failure::Silent,
            }),
            looked => looked,
        }
    }

    /// What is behind a failure, if it can be found out: nobody answered in time, or somebody else held a lock.
    pub(crate) async fn obstacle(&self, failure: &Failure) -> Option<String> {
        if !matches!(failure, Failure::Silent) && !failure.is_busy() {
            return None;
        }
        match self.condition(false).await {
            // Somebody had the lock, also if nobody waits for it at this moment.
            Ok(Condition { foreign: Some(foreign), .. }) if failure.is_busy() => Some(foreign.words()),
            Ok(condition) => condition.obstacle(),
            Err(slow @ Failure::Slow(_)) => Some(slow.what()),
            Err(_) => None,
        }
    }
}

async fn look(session: &Session, hosts: usize) -> Tried<Condition> {
    let foreign = session.client.query_opt(FOREIGN, &[]).await?.map(|row| Foreign {
        pid: row.get(0),
        whose: row.get(1),
        seconds: row.get(2),
        blocks: row.get(3),
    });
    let began = Instant::now();
    let row = session.client.query_one(LOOK, &[]).await?;
    let round_trip = began.elapsed();
    let number = |column: usize| row.get::<_, i64>(column).cast_unsigned();
    Ok(Condition {
        round_trip,
        synchronous: row.get(0),
        standbys: number(1),
        waits_for_standby: row
            .get::<_, Option<i64>>(2)
            .map(|waits| Duration::from_millis(waits.cast_unsigned())),
        foreign,
        connections: (number(3), number(4)),
        hosts,
        is_disk_full: false,
    })
}

/// Whether there is no room for a temporary file.
async fn is_disk_full(session: &Session) -> bool {
    // A sort that does not fit into memory.
    let sort = "BEGIN; SET LOCAL work_mem TO '64kB';
        SELECT count(*) FROM (SELECT md5(number::text) AS digest FROM generate_series(1, 20000) AS number ORDER BY digest OFFSET 0) AS sorted;
        ROLLBACK";
    let sorted = session.client.batch_execute(sort).await;
    sorted.is_err_and(|error| error.code() == Some(&SqlState::DISK_FULL))
}
