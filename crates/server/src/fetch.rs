//! The two operations: parse the request, look up, build the answer.

use std::fmt::Write;
use std::time::{Duration, Instant};

use contactd_contract::{EmailFound, Operation, PhoneFound, Submitted, header};
use contactd_core::store::LocalRead;
use contactd_core::{
    Allowance, Allowances, Caller, ContactValue, Kind, LimitExceeded, LookupError, Networks, NotACaller,
    Profile, Request, Timestamp,
};
use http::StatusCode;

use crate::answer::{self, Answer};
use crate::app::Reloadable;
use crate::body::Body;
use crate::clients::Client;
use crate::head::{Field, Head};
use crate::refusal::{Refusal, Unauthorized};
use crate::stream::Stream;
use crate::turn::Turn;
use crate::{App, invalid_reason, submission};

/// `POST /api/fetchPhoneNumber`, `POST /api/fetchPersonalEmail`
///
/// The order of the checks is part of the contract. An unauthorised caller learns nothing about the body, except
/// that its declared length is over the limit. Caller and profile, once known, are stored in the
/// recorder.
pub(crate) async fn fetch<D: LocalRead>(
    app: &App<D>,
    operation: Operation,
    head: &Head<'_>,
    body: &mut Body<'_, impl Stream>,
    request: Request<'_>,
    recorder: &mut Recorder<'_>,
) -> Result<Answer, Refusal> {
    // Do not wait for a body whose declared length is over the limit.
    let Reloadable { settings, networks, .. } = recorder.configured;
    if body.declared_len().is_some_and(|length| length > settings.max_body as u64) {
        return Err(Refusal::TooLarge);
    }
    let now = request.at;
    let caller = recorder.caller.insert(identify(app, head.authorization, now)?);
    if !caller.may_look_up(kind(operation)) {
        return Err(Refusal::Unauthorized(Unauthorized::InsufficientScope));
    }
    recorder.turn.check(caller.key())?;
    let misses = recorder.client.as_ref().and_then(|client| client.misses(now));
    misses.as_ref().map_or(Ok(()), |misses| misses.check(now))?;
    let mut taken = caller.take(now);
    let mut units = AwaitedUnits::default();
    while taken == Err(LimitExceeded::Unleased) && units.come(caller).await {
        taken = caller.check_quota(app.clock.now());
    }
    taken.map_err(Refusal::Limit)?;
    if !is_json(head.content_type) {
        return Err(Refusal::NotJson);
    }
    if head.is_encoded {
        return Err(Refusal::Encoded);
    }
    let has_arrived = body.has_arrived();
    let body = body.read(settings.max_body, settings.body_timeout).await?;
    let profile = profile(networks, operation, body)?;
    let arrived = if has_arrived { recorder.started } else { Instant::now() };
    let has_waited = recorder.turn.admit(caller.key(), arrived).await?;
    let later = || {
        // Meanwhile the token may have been revoked, or a detail may have expired.
        let now = app.clock.now();
        identify(app, head.authorization, now)?;
        Ok::<_, Refusal>(Request { at: now, ..request })
    };
    let is_at_once = has_arrived && !has_waited && units.since.is_none();
    let mut request = if is_at_once { request } else { later()? };
    let profile = &*recorder.profile.insert(profile);
    let _place = app.places.take(caller, settings.max_in_flight).ok_or(Refusal::Overloaded)?;
    // Before anything is read, like a unit of the quota. What is not a miss goes back.
    let miss = misses.map(|misses| misses.reserve(request.at)).transpose()?;
    let looked_up = loop {
        let began = has_waited.then(Instant::now);
        let sealed = app.lookups.find(caller, profile, kind(operation), request);
        if let Some(began) = began {
            recorder.turn.took(began.elapsed());
        }
        match sealed {
            Ok(sealed) => {
                recorder.is_recorded = true;
                recorder.turn.recorded(sealed.ticket()).await;
                break app.lookups.open(sealed, caller);
            }
            Err(LookupError::Limit(LimitExceeded::Unleased)) if units.come(caller).await => {
                request = later()?;
            }
            Err(error) => break Err(error),
        }
    };
    match looked_up {
        Ok(value) => Ok(found(operation, &value, profile)),
        Err(error) => {
            if let (LookupError::NotFound, Some(miss)) = (&error, miss) {
                miss.keep();
            }
            Err(Refusal::of_lookup(error, operation, profile.clone()))
        }
    }
}

/// How long a request waits for units of its quota, which the database leases.
const UNITS_TIMEOUT: Duration = Duration::from_secs(1);

/// Waiting for units of a quota: only in a cluster, and only if this node has none left.
#[derive(Default)]
struct AwaitedUnits {
    since: Option<Instant>,
}

impl AwaitedUnits {
    /// Waits until the database has been asked for units. False if that takes too long, or it cannot be asked.
    async fn come(&mut self, caller: &Caller) -> bool {
        let since = *self.since.get_or_insert_with(Instant::now);
        let left = UNITS_TIMEOUT.saturating_sub(since.elapsed());
        !left.is_zero() && tokio::time::timeout(left, caller.units_answered()).await.unwrap_or(false)
    }
}

/// The settings, the client and the caller of a request and its profile, and whether the request is recorded in the journal.
pub(crate) struct Recorder<'a> {
    /// The settings and networks for this request.
    pub(crate) configured: &'a Reloadable,
    /// The client, if requests are limited by address.
    pub(crate) client: Option<Client<'a>>,
    /// The caller, once known.
    pub(crate) caller: Option<Caller>,
    /// The profile, once known.
    pub(crate) profile: Option<Profile>,
    /// Whether the request has its audit line. If so, it has already waited for the end of the turn.
    pub(crate) is_recorded: bool,
    pub(crate) turn: &'a Turn,
    /// When its head had been read.
    pub(crate) started: Instant,
}

impl Recorder<'_> {
    /// Records a refused request if it had a valid token and has no line yet. The answer is the same if the line
    /// cannot be written, because nothing is disclosed. Under overload it does not wait for the line.
    pub(crate) async fn refused<D: LocalRead>(
        &mut self,
        app: &App<D>,
        operation: Operation,
        request: Request<'_>,
        refusal: &Refusal,
    ) {
        let code = refusal.code().status().unwrap_or("internal_error");
        if let Some(caller) = self.caller.as_ref().filter(|_| !self.is_recorded) {
            let ticket = app.lookups.refuse(caller, kind(operation), request, code, self.profile.as_ref());
            self.is_recorded = true;
            if !matches!(refusal, Refusal::Overloaded) {
                self.turn.recorded(&ticket).await;
            }
        }
    }
}

const fn kind(operation: Operation) -> Kind {
    match operation {
        Operation::FetchPhoneNumber => Kind::Phone,
        Operation::FetchPersonalEmail => Kind::Email,
    }
}

fn profile(networks: &Networks, operation: Operation, body: &[u8]) -> Result<Profile, Refusal> {
    let url = submission::profile_url(body)
        .map_err(|fault| Refusal::invalid(operation, &fault.submitted, fault.reason))?;
    networks
        .canonicalize(&url)
        .map_err(|reason| Refusal::invalid(operation, &Submitted::Text(url), invalid_reason(reason)))
}

fn found(operation: Operation, value: &ContactValue, profile: &Profile) -> Answer {
    let (value, profile_url) = (value.expose().into(), profile.as_str().into());
    let body = match operation {
        Operation::FetchPhoneNumber => PhoneFound { phone_number: value, profile_url }.to_json(),
        Operation::FetchPersonalEmail => EmailFound { email: value, profile_url }.to_json(),
    };
    answer::json(StatusCode::OK, body)
}

/// Whether the content type is JSON, with any parameters. A missing header counts as JSON.
fn is_json(content_type: Field<'_>) -> bool {
    let value = match content_type {
        // As nearly every client writes it.
        Field::Absent | Field::Once(b"application/json") => return true,
        Field::Once(value) => value,
        Field::Repeated => return false,
    };
    let end = value.iter().position(|&b| b == b';').unwrap_or(value.len());
    let essence = value[..end].trim_ascii();
    let Some((kind, subtype)) = essence.split_at_checked("application/".len()) else {
        return false;
    };
    let has_json_suffix = subtype.len() > 5 && subtype[subtype.len() - 5..].eq_ignore_ascii_case(b"+json");
    kind.eq_ignore_ascii_case(b"application/") && (subtype.eq_ignore_ascii_case(b"json") || has_json_suffix)
}

/// Adds `RateLimit` and `RateLimit-Policy` if the token has limits.
pub(crate) fn tell_allowances(answer: &mut Answer, allowances: Allowances) {
    if allowances == Allowances::default() {
        return;
    }
    let (mut policy, mut left) = (String::new(), String::new());
    for Allowance { name, limit, window, remaining, reset } in
        [allowances.rate, allowances.quota].into_iter().flatten()
    {
        let comma = if policy.is_empty() { "" } else { ", " };
        // Writing to a string cannot fail.
        let _ = write!(policy, "{comma}\"{name}\";q={limit};w={window}");
        let _ = write!(left, "{comma}\"{name}\";r={remaining};t={reset}");
    }
    answer.add_header(header::RATE_LIMIT_POLICY, policy);
    answer.add_header(header::RATE_LIMIT, left);
}

/// Identifies the caller. Its scopes are not checked here. A node without a lease may not have heard of a token yet, so an unknown
/// one is not refused as that of nobody.
fn identify<D: LocalRead>(app: &App<D>, authorization: Field<'_>, now: Timestamp) -> Result<Caller, Refusal> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_recognised_in_every_spelling() {
        for (content_type, expected) in [
            ("Application/JSON; charset=utf-8", true),
            ("application/problem+JSON ; q=1", true),
            ("application/+json", false),
            ("text/json", false),
            ("json", false),
        ] {
            assert_eq!(is_json(Field::Once(content_type.as_bytes())), expected, "{content_type}");
        }
    }
}
