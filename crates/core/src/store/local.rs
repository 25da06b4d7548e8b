//! The read side of a lookup.

use crate::store::Stored;
use crate::{ContactValue, Kind, Profile, Timestamp};

/// Reads details for a lookup: from a local file, on the thread that serves the request.
pub trait LocalRead: Send + Sync + 'static {
    /// The best personal detail of this kind that has not expired at `now` and that `judge` takes: highest
    /// confidence, then newest, then smallest value. Details are offered to `judge` in that order until it returns
    /// [`Verdict::Take`] or [`Verdict::Enough`].
    ///
    /// With nothing to offer, the engine still reads as much and passes some value to `judge`, ignoring the
    /// result, so that a person who is not held costs the same as one whose detail is not taken.
    fn best_personal(
        &self,
        profile: &Profile,
        kind: Kind,
        now: Timestamp,
        judge: impl Fn(&str) -> Verdict,
    ) -> Stored<Option<ContactValue>>;

    /// Releases what this thread keeps between lookups for speed.
    fn renew(&self);

    /// Makes every lookup that starts afterwards, on any thread, see everything that is committed now.
    fn renew_all(&self);
}

/// What to do with a value that is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Return this one.
    Take,
    /// Skip this one; offer the next best.
    Next,
    /// Return nothing; offer no more values of this profile.
    Enough,
}
