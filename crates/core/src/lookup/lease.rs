//! The lease of a node: how long it may answer lookups without hearing from the database.
//!
//! A node of a cluster answers from its own copy. A change such as an opt-out is in force when every node has it, or may not
//! answer any more. So a node answers only while its lease lasts. It is renewed by a heartbeat that the database has
//! committed, and runs from the moment before that heartbeat was sent.
//!
//! It is measured with a clock that also runs while the machine sleeps. If the time of day and that clock drift apart, one of
//! them cannot be trusted, and the lease ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use crate::{BootClock, Timestamp};

/// How far the two clocks may drift apart between two heartbeats, in milliseconds.
const DRIFT: u64 = 2_000;

/// Whether this process may answer lookups. Clones share their state.
#[derive(Clone)]
pub struct Lease(Option<Arc<NodeLease>>);

struct NodeLease {
    clock: Arc<dyn BootClock>,
    /// Nanoseconds since the machine was started; 0 if the lease has ended.
    ends: AtomicU64,
    /// The time of day at which the machine was started, according to the clocks at the last heartbeat, in milliseconds.
    boot: AtomicI64,
}

/// What both clocks said at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockReading {
    /// Since the machine was started.
    pub since_boot: Duration,
    /// The time of day.
    pub at: Timestamp,
}

impl ClockReading {
    /// Reads both clocks.
    pub fn of(clock: &dyn BootClock) -> Self {
        Self { since_boot: clock.since_boot(), at: clock.now() }
    }

    /// The time of day at which the machine was started, in milliseconds.
    fn boot(&self) -> i64 {
        self.at.millis().saturating_sub(i64::try_from(self.since_boot.as_millis()).unwrap_or(i64::MAX))
    }
}

impl Lease {
    /// No lease, for a server whose own file is the source of truth: it always holds, and reads no clock.
    pub const fn none() -> Self {
        Self(None)
    }

    /// The lease of a node. It does not hold until it is renewed.
    pub fn of_node(clock: Arc<dyn BootClock>) -> Self {
        Self(Some(Arc::new(NodeLease { clock, ends: AtomicU64::new(0), boot: AtomicI64::new(0) })))
    }

    /// Whether lookups may be answered at this moment.
    #[inline]
    pub fn holds(&self) -> bool {
        match &self.0 {
            None => true,
            Some(lease) => !lease.left().is_zero(),
        }
    }

    /// How much of it is left; `None` if there is no lease.
    pub fn left(&self) -> Option<Duration> {
        self.0.as_ref().map(|lease| lease.left())
    }

    /// Lets it last for this long from an earlier moment on: the one before the heartbeat was sent.
    pub fn renew(&self, from: ClockReading, length: Duration) {
        if let Some(lease) = &self.0 {
            lease.boot.store(from.boot(), Ordering::SeqCst);
            lease.ends.store(nanos(from.since_boot.saturating_add(length)), Ordering::SeqCst);
        }
    }

    /// Ends it at once.
    pub fn end(&self) {
        if let Some(lease) = &self.0 {
            lease.ends.store(0, Ordering::SeqCst);
        }
    }
}

impl NodeLease {
    fn left(&self) -> Duration {
        let ends = self.ends.load(Ordering::SeqCst);
        if ends == 0 {
            return Duration::ZERO;
        }
        let now = ClockReading::of(&*self.clock);
        if now.boot().abs_diff(self.boot.load(Ordering::SeqCst)) >= DRIFT {
            // Unless it was renewed meanwhile. It does not come back when the clock is set again.
            let _ = self.ends.compare_exchange(ends, 0, Ordering::SeqCst, Ordering::SeqCst);
            return Duration::ZERO;
        }
        Duration::from_nanos(ends.saturating_sub(nanos(now.since_boot)))
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Clock, ManualClock};

    const LENGTH: Duration = Duration::from_secs(60);

    fn renewed() -> (Arc<ManualClock>, Lease) {
        let clock = Arc::new(ManualClock::at(Timestamp::from_seconds(1_000_000)));
        let lease = Lease::of_node(Arc::<ManualClock>::clone(&clock));
        assert!(!lease.holds(), "it was never renewed");
        lease.renew(ClockReading::of(&*clock), LENGTH);
        (clock, lease)
    }

    #[test]
    fn a_lease_lasts_from_before_its_heartbeat_and_not_longer() {
        let (clock, lease) = renewed();
        clock.advance(LENGTH - Duration::from_millis(1));
        assert!(lease.holds());
        assert_eq!(lease.left(), Some(Duration::from_millis(1)));
        let sent = ClockReading::of(&*clock);
        clock.advance(Duration::from_millis(1));
        assert!(!lease.holds());
        lease.renew(sent, LENGTH);
        assert_eq!(lease.left(), Some(LENGTH - Duration::from_millis(1)));
        lease.end();
        assert!(!lease.holds());
    }

    #[test]
    fn a_lease_ends_when_the_clocks_drift_apart_and_does_not_come_back() {
        for (by, holds) in [(1_999, true), (-1_999, true), (2_000, false), (-2_000, false)] {
            let (clock, lease) = renewed();
            let now = clock.now();
            clock.set(Timestamp::from_millis(now.millis() + by));
            assert_eq!(lease.holds(), holds, "{by}");
            clock.set(now);
            assert_eq!(lease.holds(), holds, "{by}, set back");
        }
    }

    #[test]
    fn a_server_without_a_lease_always_answers() {
        let lease = Lease::none();
        lease.end();
        assert!(lease.holds());
        assert_eq!(lease.left(), None);
    }
}
