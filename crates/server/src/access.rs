//! The access log: one line per request, if the operator asks for it.

use std::time::Duration;

use contactd_contract::header;
use contactd_core::Caller;

use crate::answer::Answer;
use crate::metrics::{Outcome, route_name};
use crate::router::Route;

/// No path, no query, no address: an unknown path may hold anything.
pub(crate) fn log(
    route: Option<Route>,
    answer: &Answer,
    outcome: Outcome,
    caller: Option<&Caller>,
    took: Duration,
) {
    let request_id = answer.headers().get(header::REQUEST_ID).and_then(|id| id.to_str().ok());
    tracing::info!(
        target: "contactd::access",
        request_id,
        operation = route_name(route),
        status = answer.status().as_u16(),
        outcome = outcome.name(),
        token = caller.map(|caller| caller.token().id.as_str()),
        micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
        "request"
    );
}
