//! `GET /healthz`, `GET /readyz`

use contactd_core::store::LocalRead;
use http::StatusCode;

use crate::App;
use crate::answer::{self, Answer};
use crate::refusal::Refusal;

pub(crate) fn alive() -> Answer {
    answer::json(StatusCode::OK, &b"{\"status\":\"ok\"}"[..])
}

pub(crate) fn ready<D: LocalRead>(app: &App<D>) -> Answer {
    if app.is_stopping() {
        return Refusal::Stopping.answer();
    }
    if !app.lookups.audit_health().is_up || !app.lookups.has_lease() {
        return Refusal::NotReady.answer();
    }
    answer::json(StatusCode::OK, &b"{\"status\":\"ready\"}"[..])
}
