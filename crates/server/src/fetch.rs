//! The two operations: parse the request, look up, build the answer.

use std::borrow::Cow;
use std::fmt::Write;
use std::time::Instant;

use contactd_contract::{EmailFound, Operation, PhoneFound, Submitted, header};
use contactd_core::store::LocalRead;
use contactd_core::{Allowance, Allowances, Asked, Caller, ContactValue, Networks, Profile, Request};
use http::StatusCode;

use crate::answer::{self, Answer};
use crate::app::Reloadable;
use crate::body::Body;
use crate::clients::Client;
use crate::head::{Field, Head};
use crate::lookup::{Asker, identify, kind};
use crate::refusal::{Refusal, Unauthorized};
use crate::stream::Stream;
use crate::submission::BodyFault;
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
    let Reloadable { settings, networks, .. } = recorder.configured;
    check_declared_length(body, settings.max_body)?;
    let caller = identify(app, head.authorization, request.at)?;
    let caller = &*recorder.caller.insert(caller);
    let kind = kind(operation);
    if !caller.may_look_up(kind) {
        return Err(Refusal::Unauthorized(Unauthorized::InsufficientScope));
    }
    let mut asker = Asker::new(
        app,
        recorder.turn,
        settings,
        recorder.client.as_ref(),
        caller,
        head.authorization,
        request,
    )?;
    asker.charge().await?;
    check_type(head)?;
    let has_arrived = body.has_arrived();
    let body = body.read(settings.max_body, settings.body_timeout).await?;
    let profile = profile(networks, operation, submission::profile_url(body))?;
    let arrived = if has_arrived {
        recorder.started
    } else {
        asker.note_late();
        Instant::now()
    };
    asker.admit(arrived, 1, false).await?;
    asker.go_on()?;
    let profile = &*recorder.profile.insert(profile);
    let sealed = asker.find(profile, kind, None).await?;
    recorder.is_recorded = true;
    recorder.turn.recorded(sealed.ticket()).await;
    asker.open(sealed, profile, kind).map(|value| found(operation, &value, profile))
}

/// Do not wait for a body whose declared length is over the limit.
pub(crate) fn check_declared_length(body: &Body<'_, impl Stream>, most: usize) -> Result<(), Refusal> {
    if body.declared_len().is_some_and(|length| length > most as u64) {
        return Err(Refusal::TooLarge);
    }
    Ok(())
}

/// The body has to be JSON, as far as the head says.
pub(crate) fn check_type(head: &Head<'_>) -> Result<(), Refusal> {
    if !is_json(head.content_type) {
        return Err(Refusal::NotJson);
    }
    if head.is_encoded {
        return Err(Refusal::Encoded);
    }
    Ok(())
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
        asked: Asked,
        request: Request<'_>,
        refusal: &Refusal,
    ) {
        let code = refusal.code().recorded();
        if let Some(caller) = self.caller.as_ref().filter(|_| !self.is_recorded) {
            let ticket = {
                let is_recorded = caller.refusal_is_recorded(request.at);
                app.lookups.refuse(caller, asked, request, code, self.profile.as_ref(), is_recorded)
            };
            self.is_recorded = true;
            if !matches!(refusal, Refusal::Overloaded) {
                self.turn.recorded(&ticket).await;
            }
        }
    }
}

/// The profile that was submitted to an operation.
pub(crate) fn profile(
    networks: &Networks,
    operation: Operation,
    url: Result<Cow<'_, str>, BodyFault<'_>>,
) -> Result<Profile, Refusal> {
    let url = url.map_err(|fault| Refusal::invalid(operation, &fault.submitted, fault.reason))?;
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
