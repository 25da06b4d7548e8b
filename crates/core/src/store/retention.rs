//! How long a source's details are held, and which of them end next.

use crate::{Span, Timestamp};

/// A source, its maximum age, and which of its details end next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceRetention {
    /// The source.
    pub source: String,
    /// How long its details are held after they were observed or, if that is unknown, last imported; `None` if only their
    /// own expiry ends them.
    pub max_age: Option<Span>,
    /// How many details it holds.
    pub details: u64,
    /// How many of them have expired or are too old, and are removed by the next sweep.
    pub due: u64,
    /// How many of those that are due have expired; the others are too old.
    pub expired: u64,
    /// Those that end next after these.
    pub next: Option<NextEnding>,
}

/// Details that end on the same UTC day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextEnding {
    /// How many.
    pub details: u64,
    /// When the last of them ends.
    pub by: Timestamp,
}

impl SourceRetention {
    /// A source that holds this many details, none of which has been counted with [`add`](Self::add).
    pub const fn new(source: String, max_age: Option<Span>, details: u64) -> Self {
        Self { source, max_age, details, due: 0, expired: 0, next: None }
    }

    /// Counts one of its details, by its own expiry and by when it was observed or last imported.
    pub fn add(&mut self, expires_at: Option<Timestamp>, known_at: Option<Timestamp>, now: Timestamp) {
        let too_old_at = known_at.zip(self.max_age).map(|(at, Span(max_age))| at.plus(max_age));
        let Some(end) = expires_at.into_iter().chain(too_old_at).min() else { return };
        // As a sweep does: a detail ends in the second of its expiry, and after the second in which it gets too old.
        let has_expired = expires_at.is_some_and(|at| at.seconds() <= now.seconds());
        let is_due = has_expired || too_old_at.is_some_and(|at| at.seconds() < now.seconds());
        if is_due {
            self.due += 1;
            self.expired += u64::from(has_expired);
            return;
        }
        let alone = NextEnding { details: 1, by: end };
        self.next = Some(match self.next {
            Some(next) if next.by.day() < end.day() => next,
            Some(next) if next.by.day() == end.day() => {
                NextEnding { details: next.details + 1, by: next.by.max(end) }
            }
            _ => alone,
        });
    }
}
