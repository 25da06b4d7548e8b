//! Maintenance of the tables.

use std::path::Path;
use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use contactd_core::Timestamp;
use contactd_core::store::{Maintenance, PartSize, StoreError, StoreFuture, TakenOver, Withdrawals};

use crate::database::Counter;
use crate::usage::unsigned;
use crate::{PostgresStore, withdrawals};

/// How often old rows are removed.
const TIDY_EVERY: Duration = Duration::from_secs(60);
/// How long PostgreSQL may take to free what was removed.
const VACUUM_LIMIT: Duration = Duration::from_secs(600);

/// The tables that the store cannot do without.
const TABLES: &[&str] = &[
    "admin_events",
    "audit_usage",
    "changes",
    "counters",
    "details",
    "events",
    "facts",
    "former",
    "import_sources",
    "imports",
    "names",
    "nodes",
    "outbox",
    "positions",
    "profile_total",
    "quota_leases",
    "quotas",
    "sources",
    "suppressions",
    "tokens",
    "tombstones",
    "totals",
    "usage",
];

/// How long one tidying goes on removing. The rest is for the next one.
const TIDY_LIMIT: Duration = Duration::from_secs(3);
/// Rows removed in one transaction, so that whoever needs one of them waits only briefly.
const PORTION: u64 = 5_000;

/// Each removes a portion of old rows. Rows that somebody else writes now stay for the next time.
///
/// Changes go when all nodes have passed them. A node that was silent for a week does not count: it takes a new snapshot. What
/// matters is how far the nodes are, not how old a change is: the newest one can be from last month, and all nodes stand there.
/// The newest thousand of each counter stay, and those of the last hour: a writer whose connection broke while it committed
/// asks for its change.
///
/// A node asks for what is newer than a change that is on record. So nobody asks for what the oldest of them contains.
///
/// Quotas go a week after their day or month: until then the clock of a node may be wrong.
const FORGET: [&str; 5] = [
    "DELETE FROM changes WHERE id = ANY(ARRAY(
        SELECT changes.id FROM changes JOIN counters USING (counter)
        WHERE changed_at < now() - interval '1 hour'
            AND changes.number < least(counters.number - 999, CASE counter
                WHEN 'access' THEN (SELECT min(access_number) FROM nodes WHERE seen_at > now() - interval '7 days')
                WHEN 'details' THEN (SELECT min(details_number) FROM nodes WHERE seen_at > now() - interval '7 days')
                END)
        ORDER BY counter, changes.number LIMIT $1 FOR UPDATE OF changes SKIP LOCKED))",
    "DELETE FROM suppressions WHERE ctid = ANY(ARRAY(
        SELECT ctid FROM suppressions
        WHERE is_removed AND number <= (SELECT min(number) FROM changes WHERE counter = 'access')
        LIMIT $1 FOR UPDATE SKIP LOCKED))",
    "DELETE FROM tombstones WHERE place = ANY(ARRAY(
        SELECT place FROM tombstones
        WHERE number <= (SELECT min(number) FROM changes WHERE counter = 'details')
        ORDER BY number LIMIT $1 FOR UPDATE SKIP LOCKED))",
    "DELETE FROM quota_leases WHERE ctid = ANY(ARRAY(
        SELECT ctid FROM quota_leases
        WHERE first_day < extract(epoch FROM now()) / 86400 - CASE period WHEN 'day' THEN 8 ELSE 38 END
        LIMIT $1 FOR UPDATE SKIP LOCKED))",
    "DELETE FROM quotas WHERE ctid = ANY(ARRAY(
        SELECT ctid FROM quotas
        WHERE first_day < extract(epoch FROM now()) / 86400 - CASE period WHEN 'day' THEN 8 ELSE 38 END
        LIMIT $1 FOR UPDATE SKIP LOCKED))",
];

impl Maintenance for PostgresStore {
    async fn tidy(&self) -> Result<(), StoreError> {
        if !self.is_tidying_due() {
            return Ok(());
        }
        let until = Instant::now() + TIDY_LIMIT;
        for forget in FORGET {
            while self.forget_portion(forget).await? == PORTION {
                if Instant::now() > until {
                    self.tidy_again();
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// What was removed leaves PostgreSQL's log as the server recycles it: that is its operator's to decide.
    fn flush_removed(&self) -> impl StoreFuture<bool> {
        std::future::ready(Ok(true))
    }

    /// Frees the space of removed rows for new ones. PostgreSQL cannot be told to overwrite it. Every index of these tables is
    /// read whole, however few rows were removed: some seconds for ten million details. Others can read and write meanwhile.
    fn wipe_removed(&self) -> impl StoreFuture<()> {
        self.database.run_alone(VACUUM_LIMIT, "VACUUM (INDEX_CLEANUP ON) details, former, tombstones")
    }

    fn check(&self) -> impl StoreFuture<Vec<String>> {
        self.database.read(|work| async move {
            let missing = "SELECT name FROM unnest($1::text[]) AS name
                           WHERE to_regclass('contactd.' || name) IS NULL ORDER BY name";
            let missing = work.query(missing, &[&TABLES]).await?;
            if !missing.is_empty() {
                let missing = missing.iter().map(|row| row.get::<_, &str>(0));
                return Ok(missing.map(|name| format!("the table {name} is missing")).collect());
            }
            let mut wrong = Vec::new();
            for (query, what) in CHECKS {
                if work.query_one(query, &[]).await?.get(0) {
                    wrong.push((*what).to_owned());
                }
            }
            Ok(wrong)
        })
    }

    fn sizes(&self) -> impl StoreFuture<Vec<PartSize>> {
        self.database.read(|work| async move {
            let sizes = "SELECT relname::text, pg_total_relation_size(oid) FROM pg_class
                         WHERE relnamespace = 'contactd'::regnamespace AND relkind = 'r' ORDER BY relname";
            let rows = work.query(sizes, &[]).await?;
            Ok(rows.iter().map(|row| PartSize { name: row.get(0), bytes: unsigned(row.get(1)) }).collect())
        })
    }

    fn copy_to(&self, _dir: &Path) -> impl StoreFuture<Vec<String>> {
        std::future::ready(Err(StoreError::Unavailable(
            "it is in PostgreSQL; back it up with the tools of PostgreSQL, such as pg_dump or pg_basebackup"
                .to_owned(),
        )))
    }

    fn take_over(&self, withdrawals: &Withdrawals, at: Timestamp) -> impl StoreFuture<TakenOver> {
        self.database.change(Counter::Access, move |work| async move {
            withdrawals::take_over(&work, withdrawals, at).await
        })
    }
}

/// What must not be true, and what that means. They are cheap: PostgreSQL checks its own files.
const CHECKS: &[(&str, &str)] = &[
    (
        "SELECT count(*) <> 1 OR coalesce(min(count), 0) < 0 FROM profile_total",
        "the number of profiles is not one number that is 0 or more",
    ),
    ("SELECT EXISTS (SELECT 1 FROM totals WHERE count < 0)", "a total of details is less than 0"),
    ("SELECT count(*) <> 3 FROM counters", "a counter of changes is missing"),
    (
        "SELECT EXISTS (SELECT 1 FROM changes JOIN counters USING (counter) WHERE changes.number > counters.number)",
        "a change has a higher number than the counter of changes",
    ),
];

impl PostgresStore {
    /// Removes a portion of old rows in a transaction of its own; returns how many.
    async fn forget_portion(&self, forget: &str) -> Result<u64, StoreError> {
        let portion = PORTION.cast_signed();
        self.database.prepare(move |work| async move { Ok(work.execute(forget, &[&portion]).await?) }).await
    }

    /// Whether a minute has passed since the last time this was true.
    fn is_tidying_due(&self) -> bool {
        let mut tidied = self.tidied();
        let is_due = tidied.is_none_or(|at| at.elapsed() >= TIDY_EVERY);
        if is_due {
            *tidied = Some(Instant::now());
        }
        is_due
    }

    /// The next time is due at once.
    fn tidy_again(&self) {
        *self.tidied() = None;
    }

    fn tidied(&self) -> MutexGuard<'_, Option<Instant>> {
        self.tidied.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
