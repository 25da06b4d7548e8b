//! The one route table, and what happens around every request.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;
use contactd_contract::{Operation, path};
use contactd_core::Request;
use contactd_core::store::Details;

use crate::answer::{Answer, Envelope};
use crate::body::Body;
use crate::connection::WorkerClock;
use crate::fetch::Recorder;
use crate::head::{Head, Persistence};
use crate::refusal::Refusal;
use crate::request_id::RequestId;
use crate::turn::Turn;
use crate::{App, access, docs, fetch, health, metrics, panics};

/// Which listener a request came in by. What is on one is not on the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Site {
    Public,
    Admin,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    Fetch(Operation),
    Healthz,
    Readyz,
    OpenapiJson,
    OpenapiYaml,
    Docs,
    DocsStyle,
    DocsScript,
    Metrics,
}

impl Route {
    /// Every path there is.
    fn find(site: Site, base_path: &str, path: &str) -> Option<Self> {
        let path = match site {
            Site::Public => path.strip_prefix(base_path)?,
            Site::Admin => path,
        };
        Some(match (site, path) {
            (Site::Public, path) if path == Operation::FetchPhoneNumber.path() => {
                Self::Fetch(Operation::FetchPhoneNumber)
            }
            (Site::Public, path) if path == Operation::FetchPersonalEmail.path() => {
                Self::Fetch(Operation::FetchPersonalEmail)
            }
            (Site::Public, path::HEALTHZ) => Self::Healthz,
            (Site::Public, path::READYZ) => Self::Readyz,
            (Site::Public, path::OPENAPI_JSON) => Self::OpenapiJson,
            (Site::Public, path::OPENAPI_YAML) => Self::OpenapiYaml,
            (Site::Public, path::DOCS) => Self::Docs,
            (Site::Public, "/docs/style.css") => Self::DocsStyle,
            (Site::Public, "/docs/app.js") => Self::DocsScript,
            (Site::Admin, "/metrics") => Self::Metrics,
            _ => return None,
        })
    }

    fn check_method(self, method: &str) -> Result<(), Refusal> {
        let (allowed, allow) = match self {
            Self::Fetch(_) => (method == "POST", "POST"),
            _ => (matches!(method, "GET" | "HEAD"), "GET, HEAD"),
        };
        if allowed { Ok(()) } else { Err(Refusal::MethodNotAllowed { allow }) }
    }
}

/// An answer that is made and not yet written.
pub(crate) struct Answered<'a> {
    pub(crate) connection: Persistence,
    /// The body of the request, read or not.
    pub(crate) body: Body<'a>,
    /// The body of the answer, if it is a large one.
    pub(crate) large: Option<Bytes>,
    /// Whether it has waited for the end of the turn.
    pub(crate) is_turn_over: bool,
}

/// Answers one request into `out`: whatever happens, there is an answer, with a request id.
pub(crate) async fn handle<'a, D: Details>(
    app: &Arc<App<D>>,
    site: Site,
    head: &Head<'_>,
    mut body: Body<'a>,
    clock: &WorkerClock,
    turn: &Turn,
    out: &mut Vec<u8>,
) -> Answered<'a> {
    let started = Instant::now();
    let now = app.clock.now();
    let id = RequestId::of(head.request_id, now);
    let route = Route::find(site, &app.settings.base_path, head.path);
    let request = Request { id: id.as_str(), at: now };
    let mut recorder = Recorder { caller: None, is_recorded: false, turn };

    let answering = answer(app, route, head, &mut body, request, &mut recorder);
    let answered = panics::caught(answering).await.unwrap_or(Err(Refusal::Panicked));
    let refusal = answered.as_ref().err();
    if let (Some(Route::Fetch(operation)), Some(refusal)) = (route, refusal) {
        let code = refusal.code().status().unwrap_or("internal_error");
        recorder.refused(app, operation, request, code).await;
    }
    let Recorder { caller, is_recorded, .. } = recorder;
    let closes = refusal.is_some_and(Refusal::closes);
    if let Some(fault) = refusal.and_then(Refusal::fault) {
        tracing::error!(request_id = id.as_str(), fault, "internal error");
    }
    let outcome = app.metrics.record(route, refusal.map(Refusal::code), started.elapsed());

    let mut answer = answered.unwrap_or_else(|refusal| refusal.answer());
    if let Some(caller) = &caller {
        if outcome.is_refusal() {
            caller.count_refused();
        }
        fetch::tell_allowances(&mut answer, caller.allowances(now));
    }
    let stays = !closes && body.can_be_skipped(app.settings.max_body) && !app.is_stopping();
    let connection = if stays { head.connection } else { Persistence::Closes };
    if app.settings.access_log {
        access::log(id.as_str(), route, &answer, outcome, caller.as_ref(), started.elapsed());
    }
    let head_only = head.method == "HEAD";
    let large =
        answer.write(&Envelope { request_id: id.as_str(), date: &clock.date(), connection, head_only }, out);
    Answered { connection, body, large, is_turn_over: is_recorded }
}

/// Answers into `out` what could not be read as a request. Nothing more is read after it.
pub(crate) fn refuse_unread<D: Details>(
    app: &App<D>,
    refusal: &Refusal,
    clock: &WorkerClock,
    out: &mut Vec<u8>,
) {
    let id = RequestId::new(app.clock.now());
    let outcome = app.metrics.record(None, Some(refusal.code()), Duration::ZERO);
    let answer = refusal.answer();
    if app.settings.access_log {
        access::log(id.as_str(), None, &answer, outcome, None, Duration::ZERO);
    }
    let connection = Persistence::Closes;
    let envelope = Envelope { request_id: id.as_str(), date: &clock.date(), connection, head_only: false };
    // A refusal is never large.
    let _ = answer.write(&envelope, out);
}

async fn answer<D: Details>(
    app: &Arc<App<D>>,
    route: Option<Route>,
    head: &Head<'_>,
    body: &mut Body<'_>,
    request: Request<'_>,
    recorder: &mut Recorder<'_>,
) -> Result<Answer, Refusal> {
    if !head.is_sound {
        return Err(Refusal::BadRequest);
    }
    let route = route.ok_or(Refusal::NotFound)?;
    route.check_method(head.method)?;
    Ok(match route {
        Route::Fetch(operation) => {
            let _place = Place::take(app)?;
            return fetch::fetch(app, operation, head, body, request, recorder).await;
        }
        Route::Healthz => health::alive(),
        Route::Readyz => health::ready(app),
        Route::OpenapiJson => docs::openapi_json(app),
        Route::OpenapiYaml => docs::openapi_yaml(app),
        Route::Docs => docs::page(),
        Route::DocsStyle => docs::style(),
        Route::DocsScript => docs::script(),
        Route::Metrics => metrics::show(app).await,
    })
}

/// A request's place among those that are worked on at once.
struct Place<'a, D>(&'a App<D>);

impl<'a, D: Details> Place<'a, D> {
    fn take(app: &'a App<D>) -> Result<Self, Refusal> {
        let before = app.in_flight.fetch_add(1, Ordering::Relaxed);
        let place = Self(app);
        if before < app.settings.max_in_flight { Ok(place) } else { Err(Refusal::Overloaded) }
    }
}

impl<D> Drop for Place<'_, D> {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}
