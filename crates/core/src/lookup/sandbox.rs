//! The sandbox: what a token for tests is answered. It follows from the last part of the profile's URL alone, and nothing is read
//! for it.

use super::LookupError;
use crate::access::seconds_until;
use crate::{ContactValue, Kind, LimitExceeded, Period, Profile, Timestamp};

/// An answer of a service that is in trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SandboxTrouble {
    /// It is overloaded.
    Busy,
    /// It has a fault.
    Fault,
}

/// What is found for a profile: the same each time.
pub(super) fn find(
    profile: &Profile,
    kind: Kind,
    now: Timestamp,
) -> Result<Option<ContactValue>, LookupError> {
    let slug = profile.key().rsplit('/').next().unwrap_or_default();
    let Some(name) = slug.strip_prefix("sandbox-") else { return Ok(None) };
    let is = |kind: &str| name.starts_with(kind);
    if is("hit") {
        Ok(Some(value(slug, kind)))
    } else if is("rate") {
        Err(LimitExceeded::Rate { retry_after: 1 }.into())
    } else if is("quota") {
        // As if it were a quota of a day.
        let (_, tomorrow) = Period::Day.days(now);
        Err(LimitExceeded::Quota { retry_after: seconds_until(tomorrow, now) }.into())
    } else if is("busy") {
        Err(LookupError::Sandbox(SandboxTrouble::Busy))
    } else if is("error") {
        Err(LookupError::Sandbox(SandboxTrouble::Fault))
    } else {
        Ok(None)
    }
}

/// A number that is reserved for fiction, or an address at a domain that is reserved for examples.
fn value(slug: &str, kind: Kind) -> ContactValue {
    let number = crc32fast::hash(slug.as_bytes());
    ContactValue::from_store(match kind {
        Kind::Phone => format!("+141555501{:02}", number % 100),
        Kind::Email => format!("sandbox-{number:08x}@example.com"),
    })
}
