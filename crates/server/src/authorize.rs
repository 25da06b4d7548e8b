//! Identifies the caller by the Authorization header.

use contactd_core::store::LocalRead;
use contactd_core::{Caller, NotACaller, Timestamp};

use crate::App;
use crate::head::Field;
use crate::refusal::{Refusal, Unauthorized};

/// Identifies the caller. Its scopes are not checked here. A node without a lease may not have heard of a token yet, so an unknown
/// one is not refused as that of nobody.
pub(crate) fn caller<D: LocalRead>(
    app: &App<D>,
    authorization: Field<'_>,
    now: Timestamp,
) -> Result<Caller, Refusal> {
    let token = bearer_token(authorization).ok_or(Refusal::Unauthorized(Unauthorized::NoToken))?;
    app.callers.find(token, now).map_err(|why| match why {
        NotACaller::Unknown if !app.lookups.has_lease() => Refusal::NoLease,
        why => Refusal::Unauthorized(Unauthorized::InvalidToken(why)),
    })
}

/// The token after the scheme `Bearer`, which is case-insensitive. `None` unless there is exactly one
/// such header with a token.
fn bearer_token(authorization: Field<'_>) -> Option<&str> {
    let Field::Once(value) = authorization else {
        return None;
    };
    let (scheme, token) = value.split_at_checked("bearer ".len())?;
    let token = token.trim_ascii();
    if !scheme.eq_ignore_ascii_case(b"bearer ") || token.is_empty() {
        return None;
    }
    // A token is ASCII. A value that is not UTF-8 counts as an empty token, which is never valid.
    Some(std::str::from_utf8(token).unwrap_or_default())
}
