//! Slows down whoever guesses passwords.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use contactd_core::Timestamp;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// So many attempts in a row may fail before the next one has to wait.
const FREE: u32 = 5;

/// The longest wait between two attempts.
const LONGEST: Duration = Duration::from_secs(300);

/// Failures are forgotten after so long.
const FORGOTTEN: Duration = Duration::from_secs(3600);

/// How many names are remembered. Names that do not exist count like others.
const MOST_NAMES: usize = 10_000;

/// How many passwords are checked at once, and how many more may wait: each takes a core for some 20 ms, and 19 MiB.
const AT_ONCE: usize = 1;
const WAITING: usize = 8;

/// Attempts to log in that failed, by name.
pub(crate) struct Attempts {
    failed: Mutex<HashMap<[u8; 32], Failed>>,
    checking: Arc<Semaphore>,
    admitted: Arc<Semaphore>,
}

#[derive(Clone, Copy)]
struct Failed {
    times: u32,
    last_at: Timestamp,
}

/// Permission to check a password, as one of those that wait and as the one whose turn it is.
pub(crate) type Turn = [OwnedSemaphorePermit; 2];

impl Attempts {
    pub(crate) fn new() -> Self {
        Self {
            failed: Mutex::default(),
            checking: Arc::new(Semaphore::new(AT_ONCE)),
            admitted: Arc::new(Semaphore::new(AT_ONCE + WAITING)),
        }
    }

    /// Waits for the turn to check a password of this name. If there are too many attempts: after how many seconds to try again.
    pub(crate) async fn turn(&self, name: &str, now: Timestamp) -> Result<Turn, u64> {
        self.wait_is_over(name, now)?;
        let admitted = Arc::clone(&self.admitted).try_acquire_owned().map_err(|_| 1_u64)?;
        let checking = Arc::clone(&self.checking).acquire_owned().await.map_err(|_| 1_u64)?;
        // Those that were checked meanwhile may have failed.
        self.wait_is_over(name, now)?;
        Ok([checking, admitted])
    }

    fn wait_is_over(&self, name: &str, now: Timestamp) -> Result<(), u64> {
        let failed = self.failed.lock().get(&key(name)).copied();
        let until = failed.map_or(now, |failed| failed.last_at.plus(failed.wait()));
        if now < until { Err((until.millis() - now.millis()).unsigned_abs().div_ceil(1000)) } else { Ok(()) }
    }

    /// An attempt failed.
    pub(crate) fn failed(&self, name: &str, now: Timestamp) {
        let mut failed = self.failed.lock();
        if failed.len() >= MOST_NAMES {
            failed.retain(|_, failed| now < failed.last_at.plus(FORGOTTEN));
        }
        if failed.len() >= MOST_NAMES
            && let Some(oldest) = failed.iter().min_by_key(|(_, failed)| failed.last_at).map(|(key, _)| *key)
        {
            failed.remove(&oldest);
        }
        let entry = failed.entry(key(name)).or_insert(Failed { times: 0, last_at: now });
        let times = if now < entry.last_at.plus(FORGOTTEN) { entry.times } else { 0 };
        *entry = Failed { times: times.saturating_add(1), last_at: now };
    }

    /// An attempt succeeded.
    pub(crate) fn succeeded(&self, name: &str) {
        self.failed.lock().remove(&key(name));
    }
}

impl Failed {
    /// How long to wait after it: 2 s, 4 s, 8 s and so on once the free attempts are used.
    fn wait(self) -> Duration {
        match self.times.checked_sub(FREE) {
            None => Duration::ZERO,
            Some(more) => Duration::from_secs(2_u64.saturating_pow(more.saturating_add(1))).min(LONGEST),
        }
    }
}

/// Names are kept as hashes: somebody may have typed a password in the place of a name. All spellings that log the same user in are one
/// name.
fn key(name: &str) -> [u8; 32] {
    Sha256::digest(name.trim().to_ascii_lowercase()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_fails_often_has_to_wait_longer_and_longer_and_success_forgets() {
        let attempts = Attempts::new();
        let mut now = Timestamp::from_seconds(1_000_000);
        for _ in 0..FREE {
            assert!(attempts.turn("ada", now).await.is_ok());
            attempts.failed("ada", now);
        }
        assert_eq!(attempts.turn("ada", now).await.err(), Some(2));
        assert_eq!(attempts.turn(" ADA ", now).await.err(), Some(2), "it is the same user");
        assert!(attempts.turn("bo", now).await.is_ok(), "others do not wait");
        for wait in [2, 4, 8, 16, 32, 64, 128, 256, 300, 300] {
            assert_eq!(attempts.turn("ada", now).await.err(), Some(wait));
            now = now.plus(Duration::from_secs(wait));
            assert!(attempts.turn("ada", now).await.is_ok());
            attempts.failed("ada", now);
        }
        attempts.succeeded("ada");
        assert!(attempts.turn("ada", now).await.is_ok());
    }

    #[tokio::test]
    async fn names_that_nobody_has_do_not_fill_the_memory() {
        let attempts = Attempts::new();
        for number in 0..MOST_NAMES + 100 {
            attempts.failed(&number.to_string(), Timestamp::from_seconds(1_000_000));
        }
        assert!(attempts.failed.lock().len() <= MOST_NAMES);
    }
}
