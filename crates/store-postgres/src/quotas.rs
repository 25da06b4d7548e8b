//! Units of quotas, leased to nodes.
//!
//! A node says what it holds and what it has used, as absolute numbers, so that saying it twice changes nothing. Everything happens
//! under the lock of the quota, which is taken before anything is read. So a question whose connection was lost comes before the
//! next one, or never.

use std::collections::{BTreeMap, BTreeSet};

use contactd_core::store::Stored;
use contactd_core::{LeasedUnits, Period};

use crate::PostgresStore;
use crate::connecting::Values;
use crate::database::Work;
use crate::failure::Tried;
use crate::usage::{signed, unsigned};

/// A quota of a family of tokens in one period.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QuotaKey {
    /// The family.
    pub family: String,
    /// The period.
    pub period: Period,
    /// The first day of the period.
    pub first_day: i64,
}

impl QuotaKey {
    /// The quota of a family in the period that begins on this day.
    pub fn new(family: &str, period: Period, first_day: i64) -> Self {
        Self { family: family.to_owned(), period, first_day }
    }
}

/// What a node holds of a quota, and asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitsAsked {
    /// Which quota.
    pub key: QuotaKey,
    /// The first day of the next period.
    pub next_day: i64,
    /// The quota.
    pub limit: u64,
    /// What the node holds, used and unused. The rest of what was leased to it is given back.
    pub holds: u64,
    /// What it has used for good.
    pub used: u64,
    /// What requests under way have reserved.
    pub reserved: u64,
    /// How many more it asks for.
    pub wants: u64,
    /// Whether it has forgotten what it held, as after a restart: then what it has stored as usage counts too.
    pub is_first: bool,
}

/// Of what is leased to nobody, a node gets one part in this many at a time, or a single unit.
const SHARE: u64 = 4;

impl PostgresStore {
    /// Leases units to the process that runs as a node, and takes back what it gives back. `None` if another process runs as this
    /// node. Does not wait for a database that is away.
    pub async fn lease_units(
        &self,
        node: &str,
        process: &[u8],
        asked: &[UnitsAsked],
    ) -> Stored<Option<Vec<LeasedUnits>>> {
        let lease = move |work: Work| async move {
            lock(&work, asked).await?;
            // After the lock: the next process of this node waits for it.
            let is_ours = "SELECT EXISTS (SELECT 1 FROM nodes WHERE id = $1 AND process = $2)";
            if !work.query_one(is_ours, &[&node, &process]).await?.get::<_, bool>(0) {
                return Ok(None);
            }
            let others = others(&work, node, asked).await?;
            let answers: Vec<LeasedUnits> =
                asked.iter().zip(&others).map(|(asked, others)| others.answer(asked)).collect();
            store(&work, node, asked, &answers).await?;
            Ok(Some(answers))
        };
        self.database.prepare_without_waiting(lease).await
    }

    /// The quotas of which another node wants units that are leased to this one.
    pub async fn wanted_quotas(&self, node: &str) -> Stored<Vec<QuotaKey>> {
        let wanted = "SELECT family, period, first_day FROM quota_leases AS mine
            WHERE node = $1 AND (family, period, first_day) IN (
                SELECT family, period, first_day FROM quota_leases
                WHERE wanted_at > now() - interval '5 seconds' AND node <> $1)";
        let mut read = |work: Work| async move { Ok(work.query(wanted, &[&node]).await?) };
        Ok(self.database.read_once(&mut read).await?.iter().map(key).collect())
    }

    /// What is leased to a node.
    pub async fn leases_of(&self, node: &str) -> Stored<Vec<(QuotaKey, u64)>> {
        let leases = "SELECT family, period, first_day, units FROM quota_leases WHERE node = $1";
        let mut read = |work: Work| async move { Ok(work.query(leases, &[&node]).await?) };
        let rows = self.database.read_once(&mut read).await?;
        Ok(rows.iter().map(|row| (key(row), unsigned(row.get(3)))).collect())
    }
}

fn key(row: &tokio_postgres::Row) -> QuotaKey {
    let period = if row.get::<_, &str>(1) == Period::Month.name() { Period::Month } else { Period::Day };
    QuotaKey::new(row.get(0), period, row.get(2))
}

/// The keys of what is asked, as arrays.
fn keys(asked: &[UnitsAsked]) -> (Vec<&str>, Vec<&str>, Vec<i64>) {
    let key = |asked: &UnitsAsked| asked.key.first_day;
    (
        asked.iter().map(|asked| asked.key.family.as_str()).collect(),
        asked.iter().map(|asked| asked.key.period.name()).collect(),
        asked.iter().map(key).collect(),
    )
}

/// Locks the quotas, in the same order on every node.
async fn lock(work: &Work, asked: &[UnitsAsked]) -> Tried<()> {
    let (families, periods, days) = keys(asked);
    // New ones first, and in order too, so that no two nodes wait for each other.
    let add = "INSERT INTO quotas SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[])
        ORDER BY 1, 2, 3 ON CONFLICT DO NOTHING";
    work.execute(add, &[&families, &periods, &days]).await?;
    let lock = "SELECT 1 FROM quotas
        WHERE (family, period, first_day) IN (SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[]))
        ORDER BY family, period, first_day FOR UPDATE";
    work.query(lock, &[&families, &periods, &days]).await?;
    Ok(())
}

/// What others hold of a quota, and what is known of this node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Others {
    /// What is leased to others, or was used without a lease.
    units: u64,
    /// What of it will not come back: it is used, or its node is gone.
    used: u64,
    /// What this node has stored as usage.
    stored: u64,
}

impl Others {
    fn answer(&self, asked: &UnitsAsked) -> LeasedUnits {
        let stored = if asked.is_first { self.stored } else { 0 };
        let holds = asked.holds.max(stored);
        let free = asked.limit.saturating_sub(self.units).saturating_sub(holds);
        let granted = asked.wants.min((free / SHARE).max(1)).min(free);
        let free = free - granted;
        let used = self.used + (asked.used + asked.reserved).max(stored);
        LeasedUnits { units: holds + granted, granted, free, is_used_up: free == 0 && used >= asked.limit }
    }
}

/// A node counts with what is leased to it. One without a lease, because it was forgotten or never had one, counts with the
/// usage that is stored. What is leased to a node that is silent counts as used.
async fn others(work: &Work, node: &str, asked: &[UnitsAsked]) -> Tried<Vec<Others>> {
    let (families, periods, days) = keys(asked);
    let leased = "SELECT asked.place, node, units,
            CASE WHEN nodes.process IS NOT NULL
                AND clock_timestamp() <= nodes.seen_at + greatest(nodes.lease_ms, 2000) * interval '1 millisecond'
            THEN used ELSE units END
        FROM unnest($1::text[], $2::text[], $3::bigint[]) WITH ORDINALITY AS asked (family, period, first_day, place)
        JOIN quota_leases USING (family, period, first_day)
        LEFT JOIN nodes ON nodes.id = quota_leases.node";
    let next: Vec<i64> = asked.iter().map(|asked| asked.next_day).collect();
    let counted = "SELECT asked.place, node, sum(hits)::bigint
        FROM unnest($1::text[], $2::bigint[], $3::bigint[]) WITH ORDINALITY AS asked (family, first_day, next_day, place)
        JOIN tokens ON tokens.family = asked.family
        JOIN usage ON usage.token = tokens.id AND usage.day >= first_day AND usage.day < next_day
        GROUP BY asked.place, node";
    let mut others = vec![Others::default(); asked.len()];
    let mut lessees: BTreeSet<(i64, String)> = BTreeSet::new();
    for row in work.query(leased, &[&families, &periods, &days]).await? {
        let place: i64 = row.get(0);
        let lessee: String = row.get(1);
        if let Some(others) = usize::try_from(place - 1).ok().and_then(|at| others.get_mut(at))
            && lessee != node
        {
            others.units += unsigned(row.get(2));
            others.used += unsigned(row.get(3)).min(unsigned(row.get(2)));
        }
        lessees.insert((place, lessee));
    }
    let mut usage: BTreeMap<(i64, String), u64> = BTreeMap::new();
    for row in work.query(counted, &[&families, &days, &next]).await? {
        usage.insert((row.get(0), row.get(1)), unsigned(row.get(2)));
    }
    for ((place, counted_by), hits) in usage {
        let Some(others) = usize::try_from(place - 1).ok().and_then(|at| others.get_mut(at)) else {
            continue;
        };
        if counted_by == node {
            others.stored = hits;
        } else if !lessees.contains(&(place, counted_by)) {
            others.units += hits;
            others.used += hits;
        }
    }
    Ok(others)
}

async fn store(work: &Work, node: &str, asked: &[UnitsAsked], answers: &[LeasedUnits]) -> Tried<()> {
    let (families, periods, days) = keys(asked);
    let units: Vec<i64> = answers.iter().map(|answer| signed(answer.units)).collect();
    let used: Vec<i64> =
        asked.iter().zip(answers).map(|(asked, answer)| signed(asked.used.min(answer.units))).collect();
    let wanted: Vec<bool> = asked
        .iter()
        .zip(answers)
        .map(|(asked, answer)| answer.granted < asked.wants && answer.free == 0 && !answer.is_used_up)
        .collect();
    let store = "INSERT INTO quota_leases AS held (family, period, first_day, node, units, used, wanted_at)
        SELECT family, period, first_day, $4, units, used, CASE WHEN wanted THEN now() END
        FROM unnest($1::text[], $2::text[], $3::bigint[], $5::bigint[], $6::bigint[], $7::boolean[])
            AS given (family, period, first_day, units, used, wanted)
        ON CONFLICT (family, period, first_day, node) DO UPDATE
            SET units = excluded.units, used = excluded.used, wanted_at = excluded.wanted_at";
    let values: Values<'_> = &[&families, &periods, &days, &node, &units, &used, &wanted];
    work.execute(store, values).await?;
    // Others look at once: at what is wanted of them, or whether what they wanted has come back.
    let tell = "SELECT pg_notify('contactd', '') WHERE $4 OR EXISTS (
        SELECT 1 FROM quota_leases
        WHERE (family, period, first_day) IN (SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[]))
            AND node <> $5 AND wanted_at > now() - interval '5 seconds')";
    work.execute(tell, &[&families, &periods, &days, &wanted.contains(&true), &node]).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(limit: u64, holds: u64, used: u64, wants: u64) -> UnitsAsked {
        let key = QuotaKey { family: "f".to_owned(), period: Period::Day, first_day: 7 };
        UnitsAsked { key, next_day: 8, limit, holds, used, reserved: 0, wants, is_first: false }
    }

    fn others(units: u64, used: u64) -> Others {
        Others { units, used, stored: 0 }
    }

    fn leased(units: u64, granted: u64, free: u64, is_used_up: bool) -> LeasedUnits {
        LeasedUnits { units, granted, free, is_used_up }
    }

    #[test]
    fn a_node_gets_what_it_wants_but_only_a_part_of_what_is_left() {
        assert_eq!(others(10, 0).answer(&asked(1_000, 5, 5, 20)), leased(25, 20, 965, false));
        assert_eq!(others(60, 0).answer(&asked(100, 0, 0, 20)), leased(10, 10, 30, false));
        assert_eq!(others(98, 0).answer(&asked(100, 0, 0, 20)), leased(1, 1, 1, false));
        assert_eq!(others(0, 0).answer(&asked(3, 0, 0, 0)), leased(0, 0, 3, false));
    }

    #[test]
    fn a_quota_is_used_up_when_everything_is_used_and_not_when_it_is_leased() {
        assert_eq!(others(60, 30).answer(&asked(100, 40, 40, 5)), leased(40, 0, 0, false));
        assert_eq!(others(60, 60).answer(&asked(100, 40, 39, 5)), leased(40, 0, 0, false));
        assert_eq!(others(60, 60).answer(&asked(100, 40, 40, 5)), leased(40, 0, 0, true));
        let reserved = UnitsAsked { reserved: 1, ..asked(100, 40, 39, 5) };
        assert_eq!(others(60, 60).answer(&reserved), leased(40, 0, 0, true), "the node itself knows of that");
        assert_eq!(others(0, 0).answer(&asked(0, 0, 0, 5)), leased(0, 0, 0, true));
    }

    #[test]
    fn a_lower_quota_leaves_what_is_used_as_it_is() {
        assert_eq!(others(60, 60).answer(&asked(10, 40, 40, 5)), leased(40, 0, 0, true));
    }

    #[test]
    fn a_node_that_has_forgotten_what_it_held_counts_with_what_it_has_stored() {
        let stored = Others { stored: 9, ..others(0, 0) };
        let first = UnitsAsked { is_first: true, ..asked(10, 7, 7, 5) };
        assert_eq!(stored.answer(&first), leased(10, 1, 0, false));
        assert_eq!(stored.answer(&asked(10, 7, 7, 5)), leased(8, 1, 2, false));
    }
}
