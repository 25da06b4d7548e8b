//! Quotas in a cluster: their units are leased from the database.
//!
//! A node may use only units that the database has leased to it. It asks for more before they are used up, so a lookup takes one
//! with the same atomics as on one machine. A lookup that finds none waits until the database has answered. The database counts
//! what is leased as used, whatever becomes of the node, so a quota is never exceeded.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::task::{Poll, Waker};

use parking_lot::Mutex;

use super::limit::LimitExceeded;
use crate::Timestamp;

/// What lookups tell whoever leases units, and learn from it.
#[derive(Debug, Default)]
pub struct QuotaLeases {
    is_away: AtomicBool,
    /// By how many milliseconds the clock of this machine is ahead of the database's.
    ahead_ms: AtomicI64,
    pub(super) poke: Mutex<Poke>,
}

#[derive(Debug, Default)]
pub(super) struct Poke {
    pub(super) is_poked: bool,
    pub(super) waiting: Option<Waker>,
}

impl QuotaLeases {
    /// Says whether the database can be asked. While it cannot, no lookup waits for units.
    pub fn set_away(&self, is_away: bool) {
        self.is_away.store(is_away, Ordering::Release);
    }

    /// Says by how many milliseconds the clock of this machine is ahead of the database's, which decides when a day begins.
    pub fn set_ahead(&self, milliseconds: i64) {
        self.ahead_ms.store(milliseconds, Ordering::Relaxed);
    }

    /// The time of the database, given that of this machine.
    pub fn time(&self, now: Timestamp) -> Timestamp {
        Timestamp::from_millis(now.millis() - self.ahead_ms.load(Ordering::Relaxed))
    }

    /// Waits until units are needed. One task at a time waits.
    pub async fn needed(&self) {
        poll_fn(|cx| {
            let mut poke = self.poke.lock();
            if std::mem::take(&mut poke.is_poked) {
                return Poll::Ready(());
            }
            poke.waiting = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Wakes whoever leases units.
    pub fn poke(&self) {
        let waiting = {
            let mut poke = self.poke.lock();
            poke.is_poked = true;
            poke.waiting.take()
        };
        waiting.into_iter().for_each(Waker::wake);
    }
}

/// The part of a [`Meter`] whose units are leased.
#[derive(Debug)]
pub(crate) struct Leased {
    pub(super) leases: Arc<QuotaLeases>,
    pub(super) book: Mutex<Book>,
    /// The first day of the period in which the quota as a whole is used up; 0 if it is not, as far as is known.
    pub(super) used_up: AtomicU64,
    /// The first day of a period, and in the lower 32 bits how many of its units were leased to nobody when the database said so.
    pub(super) free: AtomicU64,
    /// Whether a lookup found no unit since the last look.
    pub(super) is_needed: AtomicBool,
    pub(super) waiting: Mutex<Answers>,
}

/// What is leased.
#[derive(Debug)]
pub(super) struct Book {
    pub(super) limit: u32,
    /// By the first day of a period: how many units this node was given, used and unused.
    pub(super) units: BTreeMap<u64, u64>,
}

#[derive(Debug, Default)]
pub(super) struct Answers {
    count: u64,
    pub(super) waiting: Vec<Waker>,
}

impl Leased {
    /// Nothing is leased, and so much is used.
    pub(crate) fn new(leases: Arc<QuotaLeases>, limit: u32, first: u64, used: u64) -> Self {
        let free = u64::from(limit).saturating_sub(used);
        Self {
            leases,
            book: Mutex::new(Book { limit, units: BTreeMap::from([(first, used)]) }),
            used_up: AtomicU64::new(0),
            free: AtomicU64::new(first << 32 | free),
            is_needed: AtomicBool::new(false),
            waiting: Mutex::default(),
        }
    }

    /// Why no unit can be taken: they are used up everywhere, or more have to come.
    pub(crate) fn exceeded(&self, first: u64, retry_after: u64) -> LimitExceeded {
        self.is_needed.store(true, Ordering::Release);
        if self.used_up.load(Ordering::Acquire) == first {
            return LimitExceeded::Quota { retry_after };
        }
        self.leases.poke();
        LimitExceeded::Unleased
    }

    /// How many units were leased to nobody, as far as this node knows.
    pub(crate) fn free(&self, first: u64) -> u64 {
        let free = self.free.load(Ordering::Acquire);
        if free >> 32 == first { free & u64::from(u32::MAX) } else { u64::from(self.book.lock().limit) }
    }

    /// Waits for the next answer of the database. False at once if it cannot be asked.
    pub(crate) async fn answer(&self) -> bool {
        let mut seen = None;
        poll_fn(|cx| {
            if self.leases.is_away.load(Ordering::Acquire) {
                return Poll::Ready(false);
            }
            let mut answers = self.waiting.lock();
            if *seen.get_or_insert(answers.count) != answers.count {
                return Poll::Ready(true);
            }
            answers.waiting.push(cx.waker().clone());
            drop(answers);
            self.leases.poke();
            Poll::Pending
        })
        .await
    }

    pub(super) fn wake(&self) {
        let waiting = {
            let mut answers = self.waiting.lock();
            answers.count += 1;
            std::mem::take(&mut answers.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }
}
