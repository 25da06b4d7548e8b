//! Slows down whoever guesses passwords, and lets nobody keep others from having theirs checked.
//!
//! Failures count for a name and where they come from, so that strangers slow down only themselves. Because one guesser may have many
//! addresses, all addresses together have a count for the name too; whoever comes from where this user has logged in before is not
//! slowed by it. A session has a count of its own.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use contactd_core::Timestamp;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::api::Api;
use crate::api::refusal::Refusal;

/// So many attempts in a row may fail before the next one has to wait: from one place, and from all unknown addresses together.
const FREE: u32 = 5;
const FREE_TOGETHER: u32 = 100;

/// The longest wait between two attempts.
const LONGEST: Duration = Duration::from_secs(300);

/// Failures are forgotten after so long.
const FORGOTTEN: Duration = Duration::from_secs(3600);

/// How many counts are remembered. Names that do not exist count like others.
const MOST_COUNTS: usize = 10_000;

/// How many attempts may wait from one place, and from how many places that are not known. Each takes a core for some 20 ms, and 19 MiB.
const WAITING: usize = 8;
const MOST_LINES: usize = 256;

/// Where an attempt comes from.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Origin {
    /// An IPv4 address, or the first 64 bits of an IPv6 address, because whoever has one of those usually has all of them.
    Address(IpAddr),
    /// A session, by the hash of its secret.
    Session([u8; 32]),
}

impl Origin {
    /// The other end of a connection.
    pub(crate) fn of(peer: IpAddr) -> Self {
        Self::Address(match peer.to_canonical() {
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
            address @ IpAddr::V4(_) => address,
        })
    }
}

/// The listener says with every request where it comes from.
impl FromRequestParts<Arc<Api>> for Origin {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Api>) -> Result<Self, Refusal> {
        parts.extensions.get().copied().ok_or_else(Refusal::internal)
    }
}

/// A password that is tried.
#[derive(Clone, Copy)]
pub(crate) struct Attempt {
    name: [u8; 32],
    origin: Origin,
    /// Whether a code of the second factor comes with it.
    has_code: bool,
}

impl Attempt {
    pub(crate) fn new(name: &str, origin: Origin, has_code: bool) -> Self {
        // Names are kept as hashes: somebody may have typed a password in the place of a name. All spellings that log the same user in
        // are one name.
        Self { name: Sha256::digest(name.trim().to_ascii_lowercase()).into(), origin, has_code }
    }

    fn own(&self) -> Key {
        (self.name, Some(self.origin))
    }
}

/// A name and where attempts come from; `None` stands for all addresses that are not known.
type Key = ([u8; 32], Option<Origin>);

#[derive(Clone, Copy)]
struct Count {
    failed: u32,
    last_at: Timestamp,
    /// Whether the last failure was a right password, and only the code was missing.
    is_half: bool,
    /// Whether this user has logged in from here.
    is_known: bool,
}

/// Those who wait in one place. Only the first of them waits for the others' firsts, so places take turns.
struct Line {
    places: Arc<Semaphore>,
    front: Arc<Semaphore>,
}

/// Permission to check a password.
pub(crate) type Turn = [OwnedSemaphorePermit; 3];

/// Attempts to log in.
pub(crate) struct Attempts {
    counts: Mutex<HashMap<Key, Count>>,
    lines: Mutex<HashMap<Origin, Line>>,
    checking: Arc<Semaphore>,
}

impl Attempts {
    pub(crate) fn new() -> Self {
        let checking = Arc::new(Semaphore::new(1));
        Self { counts: Mutex::default(), lines: Mutex::default(), checking }
    }

    /// Waits for the turn to check a password. If there are too many attempts: after how many seconds to try again.
    pub(crate) async fn turn(&self, attempt: &Attempt, now: Timestamp) -> Result<Turn, u64> {
        self.wait_is_over(attempt, now)?;
        let (place, front) = self.stand_in_line(attempt)?;
        let first = front.acquire_owned().await.map_err(|_| 1_u64)?;
        let checking = Arc::clone(&self.checking).acquire_owned().await.map_err(|_| 1_u64)?;
        // Those that were checked meanwhile may have failed.
        self.wait_is_over(attempt, now)?;
        Ok([checking, first, place])
    }

    fn stand_in_line(&self, attempt: &Attempt) -> Result<(OwnedSemaphorePermit, Arc<Semaphore>), u64> {
        let is_known = self.is_known(attempt);
        let mut lines = self.lines.lock();
        if lines.len() >= MOST_LINES {
            lines.retain(|_, line| line.places.available_permits() < WAITING);
        }
        if lines.len() >= MOST_LINES && !is_known && !lines.contains_key(&attempt.origin) {
            return Err(1);
        }
        let new = || Line { places: Arc::new(Semaphore::new(WAITING)), front: Arc::new(Semaphore::new(1)) };
        let line = lines.entry(attempt.origin).or_insert_with(new);
        let place = Arc::clone(&line.places).try_acquire_owned().map_err(|_| 1_u64)?;
        Ok((place, Arc::clone(&line.front)))
    }

    /// Whether it comes from a session, or from where this user has logged in before.
    fn is_known(&self, attempt: &Attempt) -> bool {
        matches!(attempt.origin, Origin::Session(_))
            || self.counts.lock().get(&attempt.own()).is_some_and(|count| count.is_known)
    }

    fn wait_is_over(&self, attempt: &Attempt, now: Timestamp) -> Result<(), u64> {
        let is_known = self.is_known(attempt);
        let counts = self.counts.lock();
        let together = counts.get(&(attempt.name, None)).filter(|_| !is_known);
        let ends = [(counts.get(&attempt.own()), FREE), (together, FREE_TOGETHER)];
        let until = ends.into_iter().filter_map(|(count, free)| Some(count?.wait_ends(free, attempt))).max();
        match until.filter(|until| now < *until) {
            Some(until) => Err((until.millis() - now.millis()).unsigned_abs().div_ceil(1000)),
            None => Ok(()),
        }
    }

    /// An attempt failed. `is_half`: the password was right, and no code came with it.
    pub(crate) fn failed(&self, attempt: &Attempt, is_half: bool, now: Timestamp) {
        let keys = [Some(attempt.own()), (!self.is_known(attempt)).then_some((attempt.name, None))];
        let mut counts = self.counts.lock();
        for key in keys.into_iter().flatten() {
            let before = counts.get(&key).copied();
            let recent = before.filter(|count| now < count.last_at.plus(FORGOTTEN));
            let failed = recent.map_or(0, |count| count.failed).saturating_add(1);
            let is_known = before.is_some_and(|count| count.is_known);
            put(&mut counts, key, Count { failed, last_at: now, is_half, is_known });
        }
    }

    /// An attempt succeeded.
    pub(crate) fn succeeded(&self, attempt: &Attempt, now: Timestamp) {
        let known = Count { failed: 0, last_at: now, is_half: false, is_known: true };
        put(&mut self.counts.lock(), attempt.own(), known);
    }
}

/// Stores a count. If there are too many, those go first that say least.
fn put(counts: &mut HashMap<Key, Count>, key: Key, count: Count) {
    if counts.len() >= MOST_COUNTS && !counts.contains_key(&key) {
        let least = counts.iter().min_by_key(|(_, count)| (count.is_known, count.failed, count.last_at));
        if let Some(least) = least.map(|(key, _)| *key) {
            counts.remove(&least);
        }
    }
    counts.insert(key, count);
}

impl Count {
    /// When the next attempt may be made: after 2 s, 4 s, 8 s and so on once the free attempts are used. The code that was missing does
    /// not wait because of that.
    fn wait_ends(self, free: u32, next: &Attempt) -> Timestamp {
        let failed = self.failed - u32::from(self.is_half && next.has_code);
        match failed.checked_sub(free) {
            None => self.last_at,
            Some(more) => {
                let seconds = 2_u64.saturating_pow(more.saturating_add(1));
                self.last_at.plus(Duration::from_secs(seconds).min(LONGEST))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(address: &str, name: &str) -> Attempt {
        Attempt::new(name, Origin::of(address.parse().expect("an address")), false)
    }

    fn start() -> Timestamp {
        Timestamp::from_seconds(1_000_000)
    }

    #[tokio::test]
    async fn who_fails_often_has_to_wait_longer_and_longer_and_success_forgets() {
        let (attempts, mut now) = (Attempts::new(), start());
        let ada = at("192.0.2.1", "ada");
        for _ in 0..FREE {
            assert!(attempts.turn(&ada, now).await.is_ok());
            attempts.failed(&ada, false, now);
        }
        assert_eq!(attempts.turn(&ada, now).await.err(), Some(2));
        assert_eq!(attempts.turn(&at("192.0.2.1", " ADA "), now).await.err(), Some(2), "it is the same user");
        assert!(attempts.turn(&at("192.0.2.1", "bo"), now).await.is_ok(), "others do not wait");
        assert!(attempts.turn(&at("192.0.2.2", "ada"), now).await.is_ok(), "nor does another address");
        for wait in [2, 4, 8, 16, 32, 64, 128, 256, 300, 300] {
            assert_eq!(attempts.turn(&ada, now).await.err(), Some(wait));
            now = now.plus(Duration::from_secs(wait));
            assert!(attempts.turn(&ada, now).await.is_ok());
            attempts.failed(&ada, false, now);
        }
        attempts.succeeded(&ada, now);
        assert!(attempts.turn(&ada, now).await.is_ok());
    }

    #[tokio::test]
    async fn a_missing_code_counts_until_it_comes_and_then_does_not_wait_for_itself() {
        let (attempts, ada) = (Attempts::new(), at("192.0.2.1", "ada"));
        for _ in 0..FREE {
            attempts.failed(&ada, true, start());
        }
        assert_eq!(attempts.turn(&ada, start()).await.err(), Some(2));
        let with_code = Attempt { has_code: true, ..ada };
        assert!(attempts.turn(&with_code, start()).await.is_ok());
        attempts.failed(&with_code, false, start());
        assert_eq!(attempts.turn(&with_code, start()).await.err(), Some(4), "a wrong code counts too");
    }

    #[tokio::test]
    async fn many_addresses_are_slowed_together_but_not_a_session_or_where_the_user_was_before() {
        let (attempts, home) = (Attempts::new(), at("2001:db8:1:2::3", "ada"));
        attempts.succeeded(&home, start());
        for number in 0..FREE_TOGETHER {
            let stranger = at(&format!("198.51.100.{number}"), "ada");
            assert!(attempts.turn(&stranger, start()).await.is_ok());
            attempts.failed(&stranger, false, start());
        }
        assert_eq!(attempts.turn(&at("192.0.2.9", "ada"), start()).await.err(), Some(2));
        assert!(attempts.turn(&at("192.0.2.9", "bo"), start()).await.is_ok());
        assert!(attempts.turn(&at("2001:db8:1:2:ffff::", "ada"), start()).await.is_ok(), "the same network");
        assert_eq!(attempts.turn(&at("2001:db8:1:3::3", "ada"), start()).await.err(), Some(2));
        let session = Attempt::new("ada", Origin::Session([1; 32]), false);
        assert!(attempts.turn(&session, start()).await.is_ok());
    }

    #[tokio::test]
    async fn places_take_turns_however_many_wait_in_one() {
        let attempts = Arc::new(Attempts::new());
        let flood = at("198.51.100.1", "ada");
        let checked = attempts.turn(&flood, start()).await.expect("its turn");
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut waiting = Vec::new();
        for (address, count) in [("198.51.100.1", WAITING - 1), ("192.0.2.1", 1)] {
            for _ in 0..count {
                let (attempts, order) = (Arc::clone(&attempts), Arc::clone(&order));
                waiting.push(tokio::spawn(async move {
                    let turn = attempts.turn(&at(address, "ada"), start()).await;
                    order.lock().push(address);
                    drop(turn);
                }));
                tokio::task::yield_now().await;
            }
        }
        assert_eq!(attempts.turn(&flood, start()).await.err(), Some(1), "this line is full");
        drop(checked);
        for task in waiting {
            task.await.expect("ends");
        }
        assert!(order.lock().iter().position(|address| *address == "192.0.2.1") <= Some(1));
    }

    #[tokio::test]
    async fn names_and_addresses_that_nobody_has_do_not_fill_the_memory_and_forget_nobody() {
        let (attempts, home, guessed) = (Attempts::new(), at("192.0.2.1", "ada"), at("192.0.2.2", "ada"));
        attempts.succeeded(&home, start());
        (0..=FREE).for_each(|_| attempts.failed(&guessed, false, start()));
        let mut turns = Vec::new();
        for number in 0..MOST_COUNTS / 2 + 100 {
            let [_, _, high, low] = u32::try_from(number).expect("small").to_be_bytes();
            let stranger = at(&format!("10.0.{high}.{low}"), &number.to_string());
            if number < MOST_LINES + 9 {
                turns.extend(attempts.stand_in_line(&stranger));
            }
            attempts.failed(&stranger, false, start());
        }
        assert!(attempts.counts.lock().len() <= MOST_COUNTS);
        assert_eq!((turns.len(), attempts.lines.lock().len()), (MOST_LINES, MOST_LINES));
        assert!(attempts.stand_in_line(&home).is_ok() && attempts.wait_is_over(&guessed, start()).is_err());
    }
}
