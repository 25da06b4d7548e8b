//! How much of their rates the clients have used, in bounded memory.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use contactd_core::{Bucket, LimitExceeded, Rate, Timestamp};
use parking_lot::Mutex;

use crate::client_address::ClientAddress;

/// The most addresses in the table.
const MAX_ADDRESSES: usize = 65_536;

/// The table has parts with a lock each, so that workers seldom wait for each other.
const PARTS: usize = 16;

/// How many addresses give way at once when a part is full, so that a flood of addresses does not search it every time.
const GIVE_WAY: usize = MAX_ADDRESSES / PARTS / 8;

/// The buckets of clients. An address that is not in the table has used nothing. When the table is full, the addresses
/// that have used the least give way, those that have used nothing first.
#[derive(Debug, Default)]
pub(crate) struct ClientTable {
    hasher: RandomState,
    parts: [Mutex<Part>; PARTS],
}

type Part = HashMap<ClientAddress, Arc<Buckets>>;

/// What a client has left.
#[derive(Debug, Default)]
pub(crate) struct Buckets {
    pub(crate) failed_authorizations: Bucket,
    misses: Bucket,
    /// How many misses are only reserved, by requests under way.
    reserved: AtomicU32,
}

impl ClientTable {
    /// The buckets of an address.
    pub(crate) fn find(&self, address: ClientAddress, now: Timestamp) -> Arc<Buckets> {
        let hash = self.hasher.hash_one(address);
        let part = &self.parts[usize::try_from(hash % PARTS as u64).unwrap_or(0)];
        let mut part = part.lock();
        if let Some(known) = part.get(&address) {
            return Arc::clone(known);
        }
        if part.len() >= MAX_ADDRESSES / PARTS {
            make_room(&mut part, now);
        }
        Arc::clone(part.entry(address).or_default())
    }
}

fn make_room(part: &mut Part, now: Timestamp) {
    part.retain(|_, buckets| buckets.time_to_full(now) > Duration::ZERO);
    let over = (part.len() + GIVE_WAY).saturating_sub(MAX_ADDRESSES / PARTS);
    if over == 0 {
        return;
    }
    let mut used: Vec<_> =
        part.iter().map(|(address, buckets)| (buckets.time_to_full(now), *address)).collect();
    let (least, _, _) = used.select_nth_unstable_by_key(over, |(used, _)| *used);
    for (_, address) in least {
        part.remove(address);
    }
}

impl Buckets {
    fn time_to_full(&self, now: Timestamp) -> Duration {
        self.failed_authorizations.time_to_full(now).max(self.misses.time_to_full(now))
    }

    /// Whether another miss is allowed.
    pub(crate) fn check_miss(&self, rate: Rate, now: Timestamp) -> Result<(), LimitExceeded> {
        self.misses.check(rate, now).map_err(|exceeded| self.soon(exceeded))
    }

    /// Reserves a miss, unless the rate is used up. It goes back when it is dropped, unless it is kept.
    pub(crate) fn reserve_miss(
        self: &Arc<Self>,
        rate: Rate,
        now: Timestamp,
    ) -> Result<ReservedMiss, LimitExceeded> {
        self.misses.take(rate, now).map_err(|exceeded| self.soon(exceeded))?;
        self.reserved.fetch_add(1, Ordering::AcqRel);
        Ok(ReservedMiss { buckets: Arc::clone(self), rate, is_kept: false })
    }

    /// What is reserved may be given back in a moment.
    fn soon(&self, exceeded: LimitExceeded) -> LimitExceeded {
        match self.reserved.load(Ordering::Acquire) {
            0 => exceeded,
            _ => LimitExceeded::Rate { retry_after: 1 },
        }
    }
}

/// A miss that is reserved for a lookup. If it is dropped, it goes back.
#[derive(Debug)]
pub(crate) struct ReservedMiss {
    buckets: Arc<Buckets>,
    rate: Rate,
    is_kept: bool,
}

impl ReservedMiss {
    /// The lookup was a miss.
    pub(crate) fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for ReservedMiss {
    fn drop(&mut self) {
        if !self.is_kept {
            self.buckets.misses.give_back(self.rate);
        }
        self.buckets.reserved.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client_address::Peer;
    use crate::testing::at;

    fn address(number: u32) -> ClientAddress {
        ClientAddress::of_connection(Peer::new(std::net::Ipv4Addr::from_bits(number).into()))
    }

    fn rate() -> Rate {
        "2/h".parse().expect("a rate")
    }

    impl ClientTable {
        fn len(&self) -> usize {
            self.parts.iter().map(|part| part.lock().len()).sum()
        }
    }

    #[test]
    fn every_address_has_its_own_rate() {
        let table = ClientTable::default();
        let take = |number: u32| table.find(address(number), at()).failed_authorizations.take(rate(), at());
        assert_eq!((take(1), take(1)), (Ok(()), Ok(())));
        assert_eq!(take(1), Err(LimitExceeded::Rate { retry_after: 1_800 }));
        assert_eq!(take(2), Ok(()));
    }

    #[test]
    fn a_reserved_miss_goes_back_unless_it_is_kept_and_together_they_never_exceed_the_rate() {
        let buckets = ClientTable::default().find(address(1), at());
        let reserve = || buckets.reserve_miss(rate(), at());
        let (first, second) = (reserve().expect("the first"), reserve().expect("the second"));
        let soon = LimitExceeded::Rate { retry_after: 1 };
        assert_eq!(reserve().err(), Some(soon), "one may go back");
        assert_eq!(buckets.check_miss(rate(), at()), Err(soon));
        first.keep();
        drop(second);
        assert_eq!(buckets.check_miss(rate(), at()), Ok(()));
        reserve().expect("it went back").keep();
        let later = LimitExceeded::Rate { retry_after: 1_800 };
        assert_eq!(reserve().err(), Some(later), "none will go back");
        assert_eq!(buckets.check_miss(rate(), at()), Err(later));
    }

    #[test]
    fn the_table_is_bounded_and_who_has_used_most_stays() {
        let table = ClientTable::default();
        let most = table.find(address(0), at());
        for _ in 0..2 {
            most.failed_authorizations.take(rate(), at()).expect("within the rate");
        }
        for number in 1..300_000 {
            table.find(address(number), at()).reserve_miss(rate(), at()).expect("the first").keep();
            assert!(number % 1_000 > 0 || table.len() <= MAX_ADDRESSES);
        }
        assert!(table.len() > MAX_ADDRESSES / 2, "{}", table.len());
        let after = table.find(address(0), at()).failed_authorizations.take(rate(), at());
        assert!(after.is_err(), "what it used is still known");
        let later = at().plus(Duration::from_secs(7_200));
        for number in 0..100 * u32::try_from(PARTS).expect("small") {
            table.find(address(1_000_000 + number), later);
        }
        assert!(table.len() <= MAX_ADDRESSES);
    }
}
