//! Builds the answer to a batch.

use std::ops::Range;

use contactd_contract::{BatchAnswer, BatchResult, EmailFound, ErrorCode, Operation, PhoneFound};
use contactd_core::{ContactValue, Profile};
use http::StatusCode;

use crate::answer::{self, Answer};
use crate::refusal::Refusal;

/// About how long a result is.
const RESULT_BYTES: usize = 160;

/// The results so far.
pub(super) struct Results {
    answer: BatchAnswer,
    /// For each result: where its body is, and whether something was found, if the lookup was answered.
    bodies: Vec<Option<(Range<usize>, bool)>>,
    /// The longest time after which a client may retry.
    retry_after: Option<u64>,
}

impl Results {
    pub(super) fn with_capacity(lookups: usize) -> Self {
        Self {
            answer: BatchAnswer::with_capacity(lookups * RESULT_BYTES),
            bodies: Vec::with_capacity(lookups),
            retry_after: None,
        }
    }

    /// Adds the result of a lookup that found something.
    pub(super) fn push_found(
        &mut self,
        reference: Option<&str>,
        operation: Operation,
        value: &ContactValue,
        profile: &Profile,
    ) {
        let (value, profile_url) = (value.expose().into(), profile.as_str().into());
        let body = self.answer.push(&BatchResult::found(reference), |json| match operation {
            Operation::FetchPhoneNumber => PhoneFound { phone_number: value, profile_url }.push(json),
            Operation::FetchPersonalEmail => EmailFound { email: value, profile_url }.push(json),
        });
        self.bodies.push(Some((body, true)));
    }

    pub(super) fn push_refused(&mut self, reference: Option<&str>, refusal: &Refusal) {
        let status = refusal.status();
        let result = BatchResult {
            status: status.as_str(),
            reference,
            reason: refusal.reason().map(|reason| reason.code),
            retry_after: refusal.retry_after(),
        };
        let body = self.answer.push(&result, |json| json.extend_from_slice(&refusal.body()));
        self.retry_after = self.retry_after.max(result.retry_after);
        let is_answered = refusal.code() == ErrorCode::ContactNotFound;
        self.bodies.push(is_answered.then_some((body, false)));
    }

    /// Whether the lookup with this index was answered: found or not.
    pub(super) fn is_answered(&self, index: usize) -> bool {
        self.bodies[index].is_some()
    }

    /// Adds the result of the lookup with this index, which was answered, once more. Returns its code if nothing was found.
    pub(super) fn push_again(&mut self, reference: Option<&str>, index: usize) -> Option<ErrorCode> {
        let (body, is_found) = self.bodies[index].clone()?;
        let status = if is_found { StatusCode::OK } else { StatusCode::NOT_FOUND };
        let result = BatchResult { status: status.as_str(), ..BatchResult::found(reference) };
        let body = self.answer.push_again(&result, body);
        self.bodies.push(Some((body, is_found)));
        (!is_found).then_some(ErrorCode::ContactNotFound)
    }

    pub(super) fn into_answer(self) -> Answer {
        let mut answer = answer::json(StatusCode::OK, self.answer.into_json());
        if let Some(seconds) = self.retry_after {
            answer.add_header("retry-after", seconds.to_string());
        }
        answer
    }
}
