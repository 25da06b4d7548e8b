//! The access log: one line per request, if the operator enables it.

use std::time::Duration;

use contactd_core::Caller;

use crate::answer::Answer;
use crate::metrics::{Outcome, route_name};
use crate::route::Route;

/// Logs a request, without path, query and address: an unknown path may contain anything.
pub(crate) fn log(
    request_id: &str,
    route: Option<Route>,
    answer: &Answer,
    outcome: Outcome,
    caller: Option<&Caller>,
    took: Duration,
) {
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
