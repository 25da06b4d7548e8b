//! Maintenance of the tables.

use std::path::Path;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use contactd_core::Timestamp;
use contactd_core::store::{EntityTable, Maintenance, PartSize, StoreError, Stored, TakenOver, Withdrawals};

use crate::database::{Counter, Work};
use crate::failure::Tried;
use crate::usage::unsigned;
use crate::{ClusterNode, PostgresStore, entities, schema, suppressions};

/// How long PostgreSQL may take to free what was removed.
const VACUUM_LIMIT: Duration = Duration::from_secs(600);

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

/// How long an erasure waits for a node that answers and has not wiped what was removed.
const NODES_WIPE_TIMEOUT: Duration = Duration::from_secs(600);
/// The pause between two looks at the nodes.
const LOOK_AT_NODES: Duration = Duration::from_millis(50);

#[async_trait]
impl Maintenance for PostgresStore {
    async fn tidy(&self) -> Stored<()> {
        let until = Instant::now() + TIDY_LIMIT;
        for forget in FORGET {
            while self.database.execute(forget, &[&PORTION.cast_signed()]).await? == PORTION {
                if Instant::now() > until {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// What was removed leaves PostgreSQL's log as the server recycles it: that is its operator's to decide.
    async fn flush_removed(&self) -> Stored<bool> {
        Ok(true)
    }

    /// Frees the space of removed rows for new ones. PostgreSQL cannot be told to overwrite it. Every index of these tables is
    /// read whole, however few rows were removed: some seconds for ten million details. Others can read and write meanwhile.
    ///
    /// Then waits until every node that answers lookups has wiped its files. Fails with [`StoreError::Pending`] if there are
    /// others: they do it before they answer again.
    async fn wipe_removed(&self) -> Stored<()> {
        self.database
            .run_alone(VACUUM_LIMIT, "VACUUM (INDEX_CLEANUP ON) details, former, tombstones")
            .await?;
        let began = Instant::now();
        let number = self.newest_details().await?;
        loop {
            let mut left = self.list_nodes().await?;
            left.retain(|node| node.wiped_number < number);
            if left.is_empty() {
                return Ok(());
            }
            if !left.iter().any(ClusterNode::may_answer) || began.elapsed() > NODES_WIPE_TIMEOUT {
                return Err(StoreError::Pending(left.into_iter().map(|node| node.name).collect()));
            }
            self.sleep(LOOK_AT_NODES).await;
        }
    }

    async fn check(&self) -> Stored<Vec<String>> {
        let read = move |work: Work| async move {
            let missing = "SELECT name FROM unnest($1::text[]) AS name
                       WHERE to_regclass('contactd.' || name) IS NULL ORDER BY name";
            let missing = work.query(missing, &[&schema::tables()]).await?;
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
        };
        self.database.read(read).await
    }

    async fn sizes(&self) -> Stored<Vec<PartSize>> {
        let sizes = "SELECT relname::text, pg_total_relation_size(oid) FROM pg_class
                     WHERE relnamespace = 'contactd'::regnamespace AND relkind = 'r' ORDER BY relname";
        let rows = self.database.query(sizes, &[]).await?;
        Ok(rows.iter().map(|row| PartSize { name: row.get(0), bytes: unsigned(row.get(1)) }).collect())
    }

    async fn copy_to(&self, _dir: &Path) -> Stored<Vec<String>> {
        Err(StoreError::Unavailable(
            "it is in PostgreSQL; back it up with the tools of PostgreSQL, such as pg_dump or pg_basebackup"
                .to_owned(),
        ))
    }

    async fn take_over(&self, withdrawals: &Withdrawals, at: Timestamp) -> Stored<TakenOver> {
        let mut taken = TakenOver::default();
        for counter in [Counter::Access, Counter::Accounts] {
            let change = move |work: Work| async move {
                let mut taken = taken;
                take_over(&work, counter, withdrawals, at, &mut taken).await?;
                Ok(taken)
            };
            taken = self.database.change(counter, change).await?;
        }
        Ok(taken)
    }

    async fn check_state(&self, noted: &[String]) -> Stored<Vec<String>> {
        self.find_faults(noted).await
    }

    async fn find_hooks(&self) -> Stored<Option<String>> {
        let hooks = self.database.query(FIND_HOOKS, &[]).await?;
        let hooks: Vec<String> = hooks.iter().map(|row| row.get(0)).collect();
        Ok((!hooks.is_empty()).then(|| hooks.join(", ")))
    }
}

/// Takes over what belongs to one counter.
pub(crate) async fn take_over(
    work: &Work,
    counter: Counter,
    withdrawals: &Withdrawals,
    at: Timestamp,
    taken: &mut TakenOver,
) -> Tried<()> {
    if counter == Counter::Access {
        let suppressed = withdrawals.suppressions.iter().map(|(subject, at)| (subject, *at));
        taken.suppressions = suppressions::add(work, suppressed).await?;
    }
    for table in EntityTable::ALL.into_iter().filter(|table| Counter::of(*table) == counter) {
        let rows = entities::list_since(work, table, -1).await?;
        let stored = withdrawals.decide(table, &rows, at, taken)?;
        entities::put(work, table, &rows, &stored).await?;
    }
    Ok(())
}

/// We make nothing of all this: tables, indexes and sequences are enough.
const FIND_HOOKS: &str = "WITH ours AS (SELECT * FROM pg_class WHERE relnamespace = 'contactd'::regnamespace)
    SELECT 'rule ' || quote_ident(rulename) || ' on ' || tablename FROM pg_rules WHERE schemaname = 'contactd'
    UNION SELECT 'trigger ' || quote_ident(tgname) || ' on ' || relname
    FROM pg_trigger JOIN ours ON ours.oid = tgrelid WHERE NOT tgisinternal
    UNION SELECT 'policy ' || quote_ident(policyname) || ' on ' || tablename FROM pg_policies
    WHERE schemaname = 'contactd'
    UNION SELECT 'row security on ' || relname FROM ours WHERE relrowsecurity OR relforcerowsecurity
    UNION SELECT 'foreign key ' || quote_ident(conname) || ' of ' || conrelid::regclass
    FROM pg_constraint JOIN ours ON ours.oid IN (conrelid, confrelid) WHERE contype = 'f'
    UNION SELECT 'inheritance of ' || inhrelid::regclass || ' from ' || inhparent::regclass
    FROM pg_inherits JOIN ours ON ours.oid IN (inhrelid, inhparent) WHERE relkind IN ('r', 'p')
    UNION SELECT 'view or foreign table ' || relname FROM ours WHERE relkind IN ('v', 'm', 'f')
    ORDER BY 1";

/// What must not be true, and what that means. They are cheap: PostgreSQL checks its own files.
const CHECKS: &[(&str, &str)] = &[
    (
        "SELECT count(*) <> 1 OR coalesce(min(count), 0) < 0 FROM profile_total",
        "the number of profiles is not one number that is 0 or more",
    ),
    ("SELECT EXISTS (SELECT 1 FROM totals WHERE count < 0)", "a total of details is less than 0"),
    ("SELECT count(*) <> 4 FROM counters", "a counter of changes is missing"),
    (
        "SELECT EXISTS (SELECT 1 FROM changes JOIN counters USING (counter) WHERE changes.number > counters.number)",
        "a change has a higher number than the counter of changes",
    ),
];
