//! The audit: who asked for what, and what they were given.
//!
//! No detail leaves before the line that records it is written: [`Lookups`](crate::Lookups) hands out a
//! [`Sealed`](crate::Sealed) detail, which opens once its [`Ticket`] says so. How lines are written is the
//! journal's business; here is only what they say.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::{Kind, Timestamp};

/// What one line says. There is no value in it, and no profile: only a profile's digest.
#[derive(Clone, Copy, Debug)]
pub struct AuditEvent<'a> {
    /// When the request was taken up.
    pub at: Timestamp,
    /// The request's id: 1 to 128 visible ASCII characters.
    pub request_id: &'a str,
    /// The id of the token.
    pub token: &'a str,
    /// What was asked for.
    pub operation: Kind,
    /// The profile's digest under the newest digest key; none where none could be understood.
    pub profile: Option<ProfileDigest>,
    /// What came of it.
    pub outcome: AuditOutcome,
}

/// HMAC-SHA-256 of a profile, cut to 128 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProfileDigest(pub [u8; 16]);

impl ProfileDigest {
    /// The digest that these bytes begin with.
    pub(crate) fn of(bytes: &[u8; 32]) -> Self {
        let mut short = [0; 16];
        short.copy_from_slice(&bytes[..16]);
        Self(short)
    }
}

/// Why a line that says hit or miss counts as refused: it was not written in time, so nothing was disclosed.
pub const NOT_RECORDED: &str = "not_recorded_in_time";

/// How a request of a recognised token ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditOutcome {
    /// A detail was disclosed.
    Hit,
    /// Nothing was: unknown, without such a detail, expired, suppressed or erased.
    Miss,
    /// The request was refused, with this code of the contract.
    Refused(&'static str),
}

impl AuditOutcome {
    /// The words there are.
    pub const NAMES: [&'static str; 3] = ["hit", "miss", "refused"];

    /// The word for it in the journal.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hit => Self::NAMES[0],
            Self::Miss => Self::NAMES[1],
            Self::Refused(_) => Self::NAMES[2],
        }
    }
}

/// What the journal says about one request, as it is read again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRecord {
    /// The number of the line.
    pub seq: u64,
    /// When the request was taken up.
    pub at: Timestamp,
    /// The node that took it up.
    pub node: String,
    /// The request's id.
    pub request_id: String,
    /// The id of the token.
    pub token: String,
    /// What was asked for.
    pub operation: Kind,
    /// The profile's digest, and the id of the key it was made with.
    pub profile: Option<(String, ProfileDigest)>,
    /// One of [`AuditOutcome::NAMES`].
    pub outcome: String,
    /// The code it was refused with.
    pub reason: Option<String>,
}

/// How far the journal has been read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuditPosition {
    /// The first line of the segment that was read last.
    pub segment: u64,
    /// How many bytes of it, unpacked.
    pub offset: u64,
    /// The last line that was read, and its chain value, by which it is recognised.
    pub seq: u64,
    /// Zero before the first.
    pub chain: [u8; 16],
}

/// Where audit lines go.
pub trait Audit: Send + Sync {
    /// Takes a line. It is written some time after the next [`flush`](Self::flush), together with all the others that
    /// were taken by then; the ticket tells when.
    fn append(&self, event: &AuditEvent<'_>) -> Ticket;

    /// Has everything written that was taken so far. Does not wait for it.
    fn flush(&self);

    /// How it is going.
    fn health(&self) -> AuditHealth;
}

/// How the audit is going.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuditHealth {
    /// Whether lines can be written, as far as is known.
    pub is_up: bool,
    /// Lines written since the start.
    pub lines: u64,
    /// Lines that could not be written since the start.
    pub lost: u64,
}

/// What became of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Nothing yet.
    Waiting,
    /// It is written, as safely as the operator wants it.
    Written,
    /// It could not be written.
    Failed,
}

/// The claim to know what became of a line.
#[derive(Clone, Debug)]
pub struct Ticket {
    batch: Arc<Batch>,
    /// Which line of its batch.
    line: u32,
}

/// Lines that are written together and share their fate.
#[derive(Debug, Default)]
pub struct Batch {
    fate: AtomicU8,
    claims: Mutex<Claims>,
}

#[derive(Debug, Default)]
struct Claims {
    waiting: Vec<Waker>,
    given_up: Vec<u32>,
}

const WAITING: u8 = 0;
const WRITTEN: u8 = 1;
const FAILED: u8 = 2;

impl Batch {
    /// Lines that are not written yet.
    pub fn begin() -> Arc<Self> {
        Arc::default()
    }

    /// A claim on the fate of one of its lines.
    pub fn ticket(self: &Arc<Self>, line: u32) -> Ticket {
        Ticket { batch: Arc::clone(self), line }
    }

    /// Decides the fate of all its lines, once and for all, and tells those who wait. Gives the lines that nobody waits
    /// for any more: whatever they say, nothing was disclosed.
    pub fn settle(&self, is_written: bool) -> Vec<u32> {
        let mut claims = self.claims();
        self.fate.store(if is_written { WRITTEN } else { FAILED }, Ordering::Release);
        let Claims { waiting, mut given_up } = std::mem::take(&mut *claims);
        drop(claims);
        waiting.into_iter().for_each(Waker::wake);
        given_up.sort_unstable();
        given_up
    }

    fn claims(&self) -> MutexGuard<'_, Claims> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fate(&self) -> Fate {
        match self.fate.load(Ordering::Acquire) {
            WAITING => Fate::Waiting,
            WRITTEN => Fate::Written,
            _ => Fate::Failed,
        }
    }
}

impl Ticket {
    /// A ticket whose fate is decided from the beginning.
    pub fn settled(is_written: bool) -> Self {
        let batch = Batch::begin();
        batch.settle(is_written);
        batch.ticket(0)
    }

    /// Whether both lines are written together.
    pub fn shares_fate_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.batch, &other.batch)
    }

    /// What became of the line.
    pub fn fate(&self) -> Fate {
        self.batch.fate()
    }

    /// What became of the line, for the last time: one that is not written by now has failed, and the journal will know
    /// that nobody waited for it.
    pub fn is_written(self) -> bool {
        if self.fate() == Fate::Waiting {
            let mut claims = self.batch.claims();
            // It may have been decided just before the lock was taken.
            if self.fate() == Fate::Waiting {
                claims.given_up.push(self.line);
                return false;
            }
        }
        self.fate() == Fate::Written
    }

    /// Ready when the fate is decided; wakes the task then. One task may ask for many tickets: it is woken
    /// once for each batch.
    pub fn poll_settled(&self, cx: &Context<'_>) -> Poll<()> {
        if self.fate() != Fate::Waiting {
            return Poll::Ready(());
        }
        let mut claims = self.batch.claims();
        if self.fate() != Fate::Waiting {
            return Poll::Ready(());
        }
        if !claims.waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
            claims.waiting.push(cx.waker().clone());
        }
        Poll::Pending
    }
}

/// No audit at all. Only for measuring what the audit costs.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoAudit;

impl Audit for NoAudit {
    fn append(&self, _: &AuditEvent<'_>) -> Ticket {
        Ticket::settled(true)
    }

    fn flush(&self) {}

    fn health(&self) -> AuditHealth {
        AuditHealth { is_up: true, ..AuditHealth::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everyone_who_waits_is_told_and_learns_the_same() {
        let batch = Batch::begin();
        let (one, other) = (batch.ticket(0), batch.ticket(1));
        let cx = Context::from_waker(Waker::noop());
        assert!(one.poll_settled(&cx).is_pending());
        assert_eq!(other.fate(), Fate::Waiting);
        assert_eq!(batch.settle(false), [0; 0]);
        assert!(one.poll_settled(&cx).is_ready());
        assert!(!one.is_written() && !other.is_written());
    }

    #[test]
    fn a_line_that_was_given_up_is_known_to_whoever_writes_it_later() {
        let batch = Batch::begin();
        let (early, late) = (batch.ticket(4), batch.ticket(2));
        assert!(!early.is_written());
        assert_eq!(batch.settle(true), [4]);
        assert!(late.is_written());
    }
}
