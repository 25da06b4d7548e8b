//! What the service answers about one profile, alone or in a batch.

use std::time::{Duration, SystemTime};

use contactd_contract::{ErrorCode, Operation};
use contactd_core::{Clock, SystemClock};
use serde::{Deserialize, Serialize};

/// The most that a `Retry-After` is taken for.
const LONGEST: u64 = 366 * 86_400;

/// The answer of the service about one profile.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LookupAnswer {
    submitted: String,
    /// The HTTP status.
    pub(crate) code: u16,
    /// `ok`, or the service's error code.
    pub(crate) status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    phone_number: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    email: Option<String>,
    /// The canonical form of the URL, also if nothing is on file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) profile_url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<String>,
    /// How long to wait before asking again.
    #[serde(skip)]
    pub(crate) retry_after: Option<Duration>,
}

/// The body of an answer. What is not there, or is not from contactd, is empty.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct AnswerBody {
    status: Option<String>,
    message: Option<String>,
    phone_number: Option<String>,
    email: Option<String>,
    profile_url: Option<String>,
}

/// The body of the answer to a batch.
#[derive(Deserialize)]
pub(super) struct BatchBody {
    pub(super) results: Vec<BatchResult>,
}

/// The answer to one lookup of a batch.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct BatchResult {
    status: u16,
    reason: Option<String>,
    retry_after: Option<u64>,
    body: AnswerBody,
}

impl LookupAnswer {
    pub(super) fn new(
        operation: Operation,
        submitted: &str,
        code: u16,
        body: AnswerBody,
        reason: Option<String>,
        retry_after: Option<Duration>,
    ) -> Self {
        let AnswerBody { status, message, phone_number, email, profile_url } = body;
        let status = match code {
            200 => "ok".to_owned(),
            _ => status.unwrap_or_else(|| "internal_error".to_owned()),
        };
        let not_on_file = || message.as_deref().and_then(|text| ErrorCode::url_not_on_file(operation, text));
        let profile_url = profile_url.or_else(|| not_on_file().map(str::to_owned));
        let submitted = submitted.to_owned();
        Self { submitted, code, status, phone_number, email, profile_url, reason, message, retry_after }
    }

    pub(super) fn in_batch(operation: Operation, submitted: &str, result: BatchResult) -> Self {
        let BatchResult { status, reason, retry_after, body } = result;
        // A token that is refused altogether is an answer to the batch, not to a lookup of it.
        let reason = reason.or_else(|| (status == 401).then(|| "not for this operation".to_owned()));
        let retry_after = retry_after.map(|seconds| Duration::from_secs(seconds.min(LONGEST)));
        Self::new(operation, submitted, status, body, reason, retry_after)
    }

    /// The phone number or the address.
    pub(crate) fn value(&self) -> Option<&String> {
        self.phone_number.as_ref().or(self.email.as_ref())
    }
}

/// Parses `Retry-After`: seconds, or the time at which to retry.
pub(super) fn retry_after(text: &str) -> Option<Duration> {
    let seconds = match text.parse::<u64>() {
        Ok(seconds) => seconds,
        Err(_) => {
            let then = httpdate::parse_http_date(text).ok()?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
            let now = u64::try_from(SystemClock.now().seconds()).ok()?;
            then.as_secs().saturating_sub(now)
        }
    };
    Some(Duration::from_secs(seconds.min(LONGEST)))
}

/// Why a token was refused, from `WWW-Authenticate`.
pub(super) fn described(challenge: &str) -> Option<String> {
    Some(challenge.split_once("error_description=\"")?.1.split_once('"')?.0.to_owned())
}
