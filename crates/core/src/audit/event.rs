//! The audit: who asked for what, and with which outcome.
//!
//! No detail is disclosed before its audit line is written: [`Lookups`](crate::Lookups) returns a
//! [`PendingAnswer`](crate::PendingAnswer) result, which can be opened once its [`Ticket`] says that the line is written. This
//! module defines what lines contain; the journal writes them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

use crate::{Kind, Timestamp};

/// The content of one line. It contains no value and no profile, only a profile's digest.
#[derive(Clone, Copy, Debug)]
pub struct AuditEvent<'a> {
    /// The time of the request.
    pub at: Timestamp,
    /// The request's id, as it is recorded.
    pub request_id: &'a str,
    /// The digest of the id that the caller sent, if that is not recorded as it is.
    pub given_id: Option<ShortDigest>,
    /// The id of the token.
    pub token: &'a str,
    /// What was asked for.
    pub operation: Asked,
    /// How it was asked for, if not as usual.
    pub via: Option<RequestVia>,
    /// Its place in a batch, from 1.
    pub place: Option<u32>,
    /// Whether the same batch asked for the same before, so that it does not count.
    pub is_repeat: bool,
    /// The profile's digest under the newest digest key; `None` if the profile is not known.
    pub profile: Option<ShortDigest>,
    /// The digest of the value that was disclosed, under the same key.
    pub value: Option<ShortDigest>,
    /// The outcome.
    pub outcome: AuditOutcome,
}

/// What a request asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Asked {
    /// A detail of this kind.
    Detail(Kind),
    /// Several lookups. Each has a line of its own, unless the batch was refused as a whole.
    Batch,
    /// Something of the Model Context Protocol that is no lookup. It has a line only if it was refused.
    Mcp,
}

impl Asked {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Detail(Kind::Phone), Self::Detail(Kind::Email), Self::Batch, Self::Mcp];

    /// The name used in the journal.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Detail(kind) => kind.name(),
            Self::Batch => "batch",
            Self::Mcp => "mcp",
        }
    }

    /// The kind of the detail, if it is one.
    pub const fn kind(self) -> Option<Kind> {
        match self {
            Self::Detail(kind) => Some(kind),
            Self::Batch | Self::Mcp => None,
        }
    }

    /// The one with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|asked| asked.name() == name)
    }

    /// Its place in [`ALL`](Self::ALL), as indexes store it.
    pub fn number(self) -> i16 {
        Self::ALL
            .into_iter()
            .zip(0..)
            .find(|(asked, _)| *asked == self)
            .map_or(i16::MAX, |(_, number)| number)
    }

    /// The one with this number. A number that nothing has is read as a batch, which is about nobody.
    pub fn numbered(number: i64) -> Self {
        usize::try_from(number).ok().and_then(|number| Self::ALL.get(number)).copied().unwrap_or(Self::Batch)
    }
}

/// How something was asked for, if not as usual.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequestVia {
    /// With a token of the sandbox, so nothing about anybody was disclosed. It is not counted, and in no report.
    Sandbox,
    /// With the Model Context Protocol.
    Mcp,
}

impl RequestVia {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Sandbox, Self::Mcp];

    /// The name used in the journal and in indexes.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sandbox => "sandbox",
            Self::Mcp => "mcp",
        }
    }

    /// The one with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|via| via.name() == name)
    }
}

/// Refused requests that are recorded together, because there were too many to record each.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RefusedKind {
    /// The id of the token.
    pub token: String,
    /// What was asked for.
    pub operation: Asked,
    /// How it was asked for, if not as usual.
    pub via: Option<RequestVia>,
    /// The error code.
    pub code: &'static str,
}

/// The keyed BLAKE3 hash of a profile, a value or a request id, truncated to 128 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ShortDigest(pub [u8; 16]);

impl ShortDigest {
    /// Truncates a full digest.
    pub fn of(bytes: &[u8; 32]) -> Self {
        let mut short = [0; 16];
        short.copy_from_slice(&bytes[..16]);
        Self(short)
    }
}

/// The reason why a hit or miss counts as refused: its line was not written in time, so nothing was disclosed.
pub const NOT_RECORDED: &str = "not_recorded_in_time";

/// The outcome of a request with a recognised token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditOutcome {
    /// A detail was disclosed.
    Hit,
    /// Nothing was disclosed, for any of the reasons of [`LookupError::NotFound`](crate::LookupError::NotFound).
    Miss,
    /// The request was refused with this error code of the contract.
    Refused(&'static str),
}

impl AuditOutcome {
    /// All names.
    pub const NAMES: [&'static str; 3] = ["hit", "miss", "refused"];

    /// The name used in the journal.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hit => Self::NAMES[0],
            Self::Miss => Self::NAMES[1],
            Self::Refused(_) => Self::NAMES[2],
        }
    }

    /// The place of a name in [`NAMES`](Self::NAMES); `None` if it is no outcome of a request.
    pub fn number(name: &str) -> Option<usize> {
        Self::NAMES.iter().position(|known| *known == name)
    }
}

/// One request, as read from the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRecord {
    /// The number of the line.
    pub seq: u64,
    /// The time of the request.
    pub at: Timestamp,
    /// The node that handled it.
    pub node: String,
    /// The request's id; empty if several requests are recorded together.
    pub request_id: String,
    /// The digest of the id that the caller sent, if that is not recorded as it is.
    pub given_id: Option<ShortDigest>,
    /// The id of the token.
    pub token: String,
    /// What was asked for.
    pub operation: Asked,
    /// How it was asked for, if not as usual.
    pub via: Option<RequestVia>,
    /// Its place in a batch, from 1.
    pub place: Option<u32>,
    /// The id of the digest key, and the profile's digest.
    pub profile: Option<(String, ShortDigest)>,
    /// The digest of the value that was disclosed.
    pub value: Option<ShortDigest>,
    /// One of [`AuditOutcome::NAMES`].
    pub outcome: String,
    /// The error code, if it was refused.
    pub reason: Option<String>,
    /// How many requests this is about: one, unless many were refused within a second, or none if the same batch asked for
    /// the same before. See [`counted`](Self::counted).
    pub count: u64,
}

impl AuditRecord {
    /// Whether the same batch asked for the same before.
    pub const fn is_repeat(&self) -> bool {
        self.count == 0
    }

    /// Whether the sandbox answered it.
    pub fn is_sandbox(&self) -> bool {
        self.via == Some(RequestVia::Sandbox)
    }

    /// How many requests this counts as in usage, quotas and reports: none of the sandbox.
    pub fn counted(&self) -> u64 {
        if self.is_sandbox() { 0 } else { self.count }
    }
}

/// How far the journal has been read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuditPosition {
    /// The segment that was read last, by the number of its first line.
    pub segment: u64,
    /// How many bytes of it were read, uncompressed.
    pub offset: u64,
    /// The number of the last line that was read.
    pub seq: u64,
    /// The chain value of that line, which identifies it; zero before the first line.
    pub chain: [u8; 16],
}

/// Receives audit lines.
pub trait Audit: Send + Sync {
    /// Queues a line. It is written after the next [`flush`](Self::flush), together with all lines queued by then.
    /// The ticket tells when.
    fn append(&self, event: &AuditEvent<'_>) -> Ticket;

    /// Says that nothing was disclosed for a line, although it is written. It is recorded within a second or two.
    fn take_back(&self, ticket: &Ticket);

    /// Counts a refused request, which is recorded together with others of its kind within a second or two.
    fn count_refused(&self, refused: RefusedKind);

    /// Starts writing everything that was queued so far. Does not wait for it.
    fn flush(&self);

    /// The current state.
    fn health(&self) -> AuditHealth;
}

/// The state of the audit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuditHealth {
    /// Whether lines can be written, as far as is known.
    pub is_up: bool,
    /// Lines written since the start.
    pub lines: u64,
    /// Lines that could not be written since the start.
    pub lost: u64,
}

/// What happened to a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Not decided yet.
    Waiting,
    /// It is written, as durably as configured.
    Written,
    /// It could not be written.
    Failed,
}

/// Tells what happened to a line.
#[derive(Clone, Debug)]
pub struct Ticket(Line);

#[derive(Clone, Debug)]
enum Line {
    /// It was settled without a batch, written or not.
    Settled(bool),
    /// A line of a batch, with its index there.
    OfBatch(Arc<Batch>, u32),
}

/// Lines that are written together: all of them, or none.
#[derive(Debug, Default)]
pub struct Batch {
    fate: AtomicU8,
    /// The number of its first line in the journal, once it is written.
    first: AtomicU64,
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
    /// Creates a batch that is not written yet.
    pub fn begin() -> Arc<Self> {
        Arc::default()
    }

    /// The ticket of one of its lines.
    pub fn ticket(self: &Arc<Self>, line: u32) -> Ticket {
        Ticket(Line::OfBatch(Arc::clone(self), line))
    }

    /// Decides the final fate of all lines, and wakes the tasks that wait. Returns the lines that were given up:
    /// nothing was disclosed for them, whatever they say.
    pub fn settle(&self, is_written: bool) -> Vec<u32> {
        self.settle_at(is_written, 0)
    }

    /// Like [`settle`](Self::settle), with the number of the first line in the journal.
    pub fn settle_at(&self, is_written: bool, first: u64) -> Vec<u32> {
        self.first.store(first, Ordering::Relaxed);
        let mut claims = self.claims.lock();
        self.fate.store(if is_written { WRITTEN } else { FAILED }, Ordering::Release);
        let Claims { waiting, mut given_up } = std::mem::take(&mut *claims);
        drop(claims);
        waiting.into_iter().for_each(Waker::wake);
        given_up.sort_unstable();
        given_up
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
    /// A ticket that is already settled.
    pub fn settled(is_written: bool) -> Self {
        Self(Line::Settled(is_written))
    }

    /// Whether both lines are in the same batch.
    pub fn shares_fate_with(&self, other: &Self) -> bool {
        matches!((&self.0, &other.0), (Line::OfBatch(batch, _), Line::OfBatch(other, _)) if Arc::ptr_eq(batch, other))
    }

    /// What has happened to the line so far.
    pub fn fate(&self) -> Fate {
        match &self.0 {
            Line::Settled(true) => Fate::Written,
            Line::Settled(false) => Fate::Failed,
            Line::OfBatch(batch, _) => batch.fate(),
        }
    }

    /// The number of the line in the journal, if it is written.
    pub fn number(&self) -> Option<u64> {
        match &self.0 {
            Line::OfBatch(batch, line) if batch.fate() == Fate::Written => {
                Some(batch.first.load(Ordering::Relaxed) + u64::from(*line))
            }
            Line::OfBatch(..) | Line::Settled(_) => None,
        }
    }

    /// Whether the line is written. A line that is not decided yet is given up: it counts as failed, and
    /// [`Batch::settle`] reports it to the journal.
    pub fn is_written(&self) -> bool {
        if let Line::OfBatch(batch, line) = &self.0
            && batch.fate() == Fate::Waiting
        {
            let mut claims = batch.claims.lock();
            // It may have been settled just before the lock was taken.
            if batch.fate() == Fate::Waiting {
                claims.given_up.push(*line);
                return false;
            }
        }
        self.fate() == Fate::Written
    }

    /// Ready when the fate is decided; until then, registers the task to be woken. A task that polls many
    /// tickets is woken once per batch.
    pub fn poll_settled(&self, cx: &Context<'_>) -> Poll<()> {
        let Line::OfBatch(batch, _) = &self.0 else { return Poll::Ready(()) };
        if batch.fate() != Fate::Waiting {
            return Poll::Ready(());
        }
        let mut claims = batch.claims.lock();
        if batch.fate() != Fate::Waiting {
            return Poll::Ready(());
        }
        if !claims.waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
            claims.waiting.push(cx.waker().clone());
        }
        Poll::Pending
    }
}

/// No audit. Only for tests, and to measure what the audit costs.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoAudit;

impl Audit for NoAudit {
    fn append(&self, _: &AuditEvent<'_>) -> Ticket {
        Ticket::settled(true)
    }

    fn take_back(&self, _: &Ticket) {}

    fn count_refused(&self, _: RefusedKind) {}

    fn flush(&self) {}

    fn health(&self) -> AuditHealth {
        AuditHealth { is_up: true, ..AuditHealth::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_tickets_of_a_batch_have_the_same_fate() {
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
    fn settle_returns_the_lines_that_were_given_up() {
        let batch = Batch::begin();
        let (early, late) = (batch.ticket(4), batch.ticket(2));
        assert!(!early.is_written());
        assert_eq!(batch.settle(true), [4]);
        assert!(late.is_written());
    }
}
