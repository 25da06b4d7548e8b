//! The two operations: translate, look up, translate back.

use contactd_contract::{EmailFound, Operation, PhoneFound, Submitted, header};
use contactd_core::store::Details;
use contactd_core::{Allowance, Allowances, Caller, ContactValue, Kind, Profile, Timestamp};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue};
use hyper::body::Incoming;

use crate::answer::{self, Answer};
use crate::refusal::{Refusal, Unauthorized};
use crate::{App, authorize, body, invalid_reason};

/// `POST /api/fetchPhoneNumber`, `POST /api/fetchPersonalEmail`
///
/// The order of the checks is part of the contract: nothing about a body is said to a
/// caller who is not authorised. The caller, once known, is left in `caller`.
pub(crate) async fn fetch<D: Details>(
    app: &App<D>,
    operation: Operation,
    request: &Parts,
    body: &mut Incoming,
    now: Timestamp,
    caller: &mut Option<Caller>,
) -> Result<Answer, Refusal> {
    declared_length(&request.headers, app.settings.max_body)?;
    let caller = caller.insert(authorize::caller(app, &request.headers, now)?);
    if !caller.may_look_up(kind(operation)) {
        return Err(Refusal::Unauthorized(Unauthorized::InsufficientScope));
    }
    caller.take(now).map_err(Refusal::Limit)?;
    content_type(&request.headers)?;
    let body = body::read(body, app.settings.max_body, app.settings.body_timeout).await?;
    let profile = profile(app, operation, &body)?;
    match app.lookups.find(caller, &profile, kind(operation)).await {
        Ok(value) => Ok(found(operation, &value, &profile)),
        Err(error) => Err(Refusal::of_lookup(error, operation, profile)),
    }
}

const fn kind(operation: Operation) -> Kind {
    match operation {
        Operation::FetchPhoneNumber => Kind::Phone,
        Operation::FetchPersonalEmail => Kind::Email,
    }
}

fn profile<D: Details>(app: &App<D>, operation: Operation, body: &[u8]) -> Result<Profile, Refusal> {
    let url = body::profile_url(body)
        .map_err(|fault| Refusal::invalid(operation, &fault.submitted, fault.reason))?;
    app.networks
        .canonicalize(&url)
        .map_err(|reason| Refusal::invalid(operation, &Submitted::Text(url), invalid_reason(reason)))
}

fn found(operation: Operation, value: &ContactValue, profile: &Profile) -> Answer {
    let (value, profile_url) = (value.expose().into(), profile.as_str().into());
    match operation {
        Operation::FetchPhoneNumber => answer::found(&PhoneFound { phone_number: value, profile_url }),
        Operation::FetchPersonalEmail => answer::found(&EmailFound { email: value, profile_url }),
    }
}

/// A body that says it is too large is not waited for.
fn declared_length(headers: &HeaderMap, max_body: usize) -> Result<(), Refusal> {
    let declared = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    match declared {
        Some(length) if length > max_body as u64 => Err(Refusal::TooLarge),
        _ => Ok(()),
    }
}

/// JSON, with any parameters; nothing said is taken as JSON.
fn content_type(headers: &HeaderMap) -> Result<(), Refusal> {
    let is_json = |value: &HeaderValue| {
        let value = value.to_str().unwrap_or_default();
        let essence = value.split(';').next().unwrap_or_default().trim();
        let (kind, subtype) = essence.split_once('/').unwrap_or_default();
        let ends_in_json = subtype.len() > 5 && subtype[subtype.len() - 5..].eq_ignore_ascii_case("+json");
        kind.eq_ignore_ascii_case("application") && (subtype.eq_ignore_ascii_case("json") || ends_in_json)
    };
    if headers.get_all(CONTENT_TYPE).iter().all(is_json) { Ok(()) } else { Err(Refusal::NotJson) }
}

/// `RateLimit` and `RateLimit-Policy`, for a limited token.
pub(crate) fn tell_allowances(headers: &mut HeaderMap, allowances: Allowances) {
    let limits = [allowances.rate, allowances.quota];
    if limits.iter().all(Option::is_none) {
        return;
    }
    let list = |show: fn(&Allowance) -> String| {
        let shown: Vec<String> = limits.iter().flatten().map(show).collect();
        HeaderValue::from_str(&shown.join(", "))
    };
    let policy = list(|limit| format!("\"{}\";q={};w={}", limit.name, limit.limit, limit.window));
    let left = list(|limit| format!("\"{}\";r={};t={}", limit.name, limit.remaining, limit.reset));
    for (name, value) in [(header::RATE_LIMIT_POLICY, policy), (header::RATE_LIMIT, left)] {
        if let Ok(value) = value {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepts(content_type_value: &'static str) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type_value));
        content_type(&headers).is_ok()
    }

    #[test]
    fn json_is_accepted_in_every_spelling() {
        for good in [
            "application/json",
            "Application/JSON; charset=utf-8",
            "application/json;charset=latin1;x=\"y\"",
            "application/vnd.api+json",
            "application/problem+JSON ; q=1",
        ] {
            assert!(accepts(good), "{good}");
        }
        assert!(content_type(&HeaderMap::new()).is_ok());
    }

    #[test]
    fn everything_else_is_not() {
        for bad in [
            "",
            "text/json",
            "application/jsonp",
            "application/+json",
            "application/x-www-form-urlencoded",
            "json",
            "text/plain",
        ] {
            assert!(!accepts(bad), "{bad}");
        }
    }
}
