//! The requests that a rate leaves to a caller.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use super::limit::{Allowance, LimitExceeded, Rate, div_ceil};
use crate::Timestamp;

/// What is left of a rate, stored as the time at which the bucket will be full again, in nanoseconds since 1970. A new
/// bucket is full. All calls on one bucket must have the same rate.
#[derive(Debug, Default)]
pub struct Bucket(AtomicI64);

const SECOND: i64 = 1_000_000_000;

impl Bucket {
    /// Takes one request from the bucket, or returns how long to wait.
    pub fn take(&self, rate: Rate, now: Timestamp) -> Result<(), LimitExceeded> {
        let now = nanos(now);
        let (interval, depth) = (interval(rate), depth(rate));
        // More than an empty bucket needs can be missing only if the clock went back. It counts as empty then.
        let missing = |whole_at: i64| whole_at.saturating_sub(now).clamp(0, depth);
        let taken = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, |whole_at| {
            let missing = missing(whole_at) + interval;
            (missing <= depth).then(|| now.saturating_add(missing))
        });
        taken.map(|_| ()).map_err(|whole_at| {
            // Stored, so that it refills from now on, although nothing was taken.
            let empty = now.saturating_add(depth);
            self.0.fetch_min(empty, Ordering::AcqRel);
            let wait = missing(whole_at) + interval - depth;
            LimitExceeded::Rate { retry_after: ceil_seconds(wait).max(1) }
        })
    }

    /// Whether a request could be taken. Takes nothing.
    pub fn check(&self, rate: Rate, now: Timestamp) -> Result<(), LimitExceeded> {
        Self(AtomicI64::new(self.0.load(Ordering::Acquire))).take(rate, now)
    }

    /// Gives back a request that was taken.
    pub fn give_back(&self, rate: Rate) {
        self.0.fetch_sub(interval(rate), Ordering::AcqRel);
    }

    /// How long it takes until the bucket is full; zero if it is full now.
    pub fn time_to_full(&self, now: Timestamp) -> Duration {
        let missing = self.0.load(Ordering::Acquire).saturating_sub(nanos(now));
        Duration::from_nanos(u64::try_from(missing).unwrap_or(0))
    }

    pub(crate) fn allowance(&self, rate: Rate, now: Timestamp) -> Allowance {
        let (interval, burst) = (interval(rate), rate.burst.max(1));
        let missing = self.0.load(Ordering::Acquire).saturating_sub(nanos(now)).clamp(0, depth(rate));
        let used = u64::try_from(div_ceil(missing, interval)).unwrap_or(0);
        Allowance {
            name: "rate",
            limit: u64::from(burst),
            window: ceil_seconds(depth(rate)).max(1),
            remaining: u64::from(burst).saturating_sub(used),
            reset: ceil_seconds(missing),
        }
    }
}

fn interval(rate: Rate) -> i64 {
    (SECOND * i64::from(rate.seconds) / i64::from(rate.count.max(1))).max(1)
}

/// How far in the future the stored time may be: the time to refill an empty bucket, at most thirty years.
fn depth(rate: Rate) -> i64 {
    const MAX: i64 = 30 * 366 * 86_400 * SECOND;
    interval(rate).saturating_mul(i64::from(rate.burst.max(1))).min(MAX)
}

fn nanos(time: Timestamp) -> i64 {
    time.millis().saturating_mul(1_000_000)
}

fn ceil_seconds(nanos: i64) -> u64 {
    u64::try_from(div_ceil(nanos.max(0), SECOND)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        Timestamp::parse(text).expect("a time")
    }

    #[test]
    fn a_bucket_gives_its_burst_and_then_one_per_interval() {
        let rate = Rate { burst: 3, ..("2/s".parse().expect("a rate")) };
        let (bucket, start) = (Bucket::default(), at("2026-05-01"));
        for _ in 0..3 {
            bucket.take(rate, start).expect("within the burst");
        }
        assert_eq!(bucket.allowance(rate, start).remaining, 0);
        assert_eq!(bucket.take(rate, start), Err(LimitExceeded::Rate { retry_after: 1 }));
        let later = Timestamp::from_millis(start.millis() + 500);
        assert_eq!(bucket.allowance(rate, later).remaining, 1);
        bucket.take(rate, later).expect("one has come back");
        assert!(bucket.take(rate, later).is_err());
    }

    #[test]
    fn what_is_given_back_can_be_taken_again() {
        let rate: Rate = "2/h".parse().expect("a rate");
        let (bucket, now) = (Bucket::default(), at("2026-05-01"));
        assert_eq!(bucket.time_to_full(now), Duration::ZERO);
        bucket.take(rate, now).expect("the first");
        bucket.check(rate, now).expect("there is a second, and this does not take it");
        bucket.take(rate, now).expect("the second");
        assert_eq!(bucket.time_to_full(now), Duration::from_secs(3_600));
        let used_up = Err(LimitExceeded::Rate { retry_after: 1_800 });
        assert_eq!((bucket.check(rate, now), bucket.take(rate, now)), (used_up, used_up));
        bucket.give_back(rate);
        bucket.take(rate, now).expect("it was given back");
        for _ in 0..2 {
            bucket.give_back(rate);
        }
        assert_eq!(bucket.time_to_full(now), Duration::ZERO);
    }

    #[test]
    fn an_enormous_burst_is_only_enormous() {
        let rate = Rate { count: 1, seconds: 3_600, burst: u32::MAX };
        let (bucket, now) = (Bucket::default(), at("2026-05-01"));
        for _ in 0..1_000 {
            bucket.take(rate, now).expect("within the burst");
        }
        assert!(bucket.allowance(rate, now).remaining > 0);
    }

    #[test]
    fn after_the_clock_went_back_a_bucket_is_empty_and_refills_from_then_on() {
        let rate: Rate = "2/s".parse().expect("a rate");
        let (bucket, start) = (Bucket::default(), at("2026-05-01T12:00:00Z"));
        bucket.take(rate, start).expect("within the burst");
        let back = at("2025-05-01T12:00:00Z");
        assert_eq!(bucket.take(rate, back), Err(LimitExceeded::Rate { retry_after: 1 }));
        assert_eq!(bucket.allowance(rate, back).reset, 1, "not a year");
        let later = Timestamp::from_millis(back.millis() + 500);
        bucket.take(rate, later).expect("one has come back");
        assert!(bucket.take(rate, later).is_err());
        // Forward, it is full.
        for _ in 0..rate.burst {
            bucket.take(rate, start).expect("within the burst");
        }
    }
}
