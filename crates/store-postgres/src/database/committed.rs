//! The changes that this process has committed, until somebody has made sure that the database still has them.
//!
//! A database can become an older one after it has acknowledged a change: a standby without the change takes its place, or it is
//! restored. So whoever waits until a change is in force asks for it once more at the end.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use contactd_core::store::Stored;
use contactd_core::store::copying::ChangePoint;
use parking_lot::Mutex;

use crate::PostgresStore;
use crate::counter::Counter;
use crate::database::{Database, Work};

/// How long a change is remembered. The database keeps them for longer.
const REMEMBERED: Duration = Duration::from_secs(1_800);
/// How many are remembered. Some are never asked for.
const MOST: usize = 1_000;

/// The changes of one counter.
#[derive(Default)]
pub(crate) struct Committed {
    /// The number of the last one. What is read later may come from a former primary that still runs and does not know it.
    newest: AtomicI64,
    unconfirmed: Mutex<Vec<(ChangePoint, Instant)>>,
}

impl Committed {
    fn note(&self, change: ChangePoint) {
        // Not the larger number: after a restore of the database, numbers begin again at an earlier one.
        self.newest.store(change.number, Ordering::SeqCst);
        let mut unconfirmed = self.unconfirmed.lock();
        unconfirmed.retain(|(_, at)| at.elapsed() < REMEMBERED);
        if unconfirmed.len() == MOST {
            unconfirmed.remove(0);
        }
        unconfirmed.push((change, Instant::now()));
    }
}

impl Database {
    pub(super) fn note_committed(&self, counter: Counter, change: ChangePoint) {
        if let Some(committed) = self.committed_of(counter) {
            committed.note(change);
        }
    }

    /// The last number of a counter that was committed here.
    pub(crate) fn newest_committed(&self, counter: Counter) -> i64 {
        self.committed_of(counter).map_or(0, |committed| committed.newest.load(Ordering::SeqCst))
    }

    const fn committed_of(&self, counter: Counter) -> Option<&Committed> {
        match counter {
            Counter::Access => Some(&self.committed[0]),
            Counter::Details => Some(&self.committed[1]),
            Counter::Accounts | Counter::Usage => None,
        }
    }
}

/// The changes that were committed here so far, and that nobody has asked for.
pub struct Unconfirmed {
    counter: Counter,
    ids: Vec<Vec<u8>>,
}

impl PostgresStore {
    /// The changes of tokens and suppressions that this process has committed so far.
    pub fn unconfirmed_access(&self) -> Unconfirmed {
        self.unconfirmed(Counter::Access)
    }

    /// The same for details.
    pub fn unconfirmed_details(&self) -> Unconfirmed {
        self.unconfirmed(Counter::Details)
    }

    fn unconfirmed(&self, counter: Counter) -> Unconfirmed {
        let committed = self.database.committed_of(counter).map(|committed| committed.unconfirmed.lock());
        let ids =
            committed.iter().flat_map(|committed| committed.iter()).map(|(change, _)| change.id.clone());
        Unconfirmed { counter, ids: ids.collect() }
    }

    /// Whether the database still has all of these changes. If not, it has become an older one since, and what they changed is lost.
    pub async fn still_has(&self, changes: &Unconfirmed) -> Stored<bool> {
        let Unconfirmed { counter, ids } = changes;
        if ids.is_empty() {
            return Ok(true);
        }
        let count = "SELECT count(*) FROM changes WHERE counter = $1 AND id = ANY($2)";
        let read = move |work: Work| async move {
            Ok(work.query_one(count, &[&counter.name(), ids]).await?.get::<_, i64>(0))
        };
        let found = self.database.read(read).await?;
        if let Some(committed) = self.database.committed_of(*counter) {
            committed.unconfirmed.lock().retain(|(change, _)| !ids.contains(&change.id));
        }
        Ok(usize::try_from(found).is_ok_and(|found| found == ids.len()))
    }
}
