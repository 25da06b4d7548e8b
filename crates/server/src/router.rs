//! What is done for every request.

use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use bytes::Bytes;
use contactd_contract::{ErrorCode, header};
use contactd_core::store::LocalRead;
use contactd_core::{Request, RequestVia};
use futures_util::FutureExt;

use crate::answer::{Answer, Envelope};
use crate::app::Reloadable;
use crate::body::Body;
use crate::client_address::Peer;
use crate::clients::Client;
use crate::fetch::Recorder;
use crate::head::{Head, Persistence};
use crate::metrics::Outcome;
use crate::refusal::Refusal;
use crate::request_id::{self, RequestId};
use crate::route::Route;
use crate::stream::Stream;
use crate::turn::Turn;
use crate::worker_clock::WorkerClock;
use crate::{App, access, batch, cors, docs, fetch, health, mcp};

/// An answer that is ready but not yet written.
pub(crate) struct Answered {
    pub(crate) connection: Persistence,
    /// The body of the answer, if it is large.
    pub(crate) large: Option<Bytes>,
    /// How much of the body is read if the answer does not need it.
    pub(crate) max_body: usize,
    /// Whether it has already waited for the end of the turn.
    pub(crate) is_turn_over: bool,
}

/// Appends the answer to one request to `out`. There is always an answer, and it always has a request id.
pub(crate) async fn handle<D: LocalRead>(
    app: &App<D>,
    configured: &Reloadable,
    peer: Peer,
    head: &Head<'_>,
    body: &mut Body<'_, impl Stream>,
    turn: &Turn,
    out: &mut Vec<u8>,
) -> Answered {
    let started = Instant::now();
    let now = app.clock.now();
    let (mut id_text, mut own_text) = (request_id::EMPTY, request_id::EMPTY);
    let id = RequestId::of(head.request_id, now, &mut id_text);
    let allowed_origin = configured.cors.find(head.origin);
    let is_preflight = allowed_origin.is_some() && cors::is_preflight(head);
    let route = Route::find(configured.settings.base_path.as_str(), head.path);
    let limits = configured.client_limits.as_ref();
    let client = limits.map(|limits| Client { limits, clients: &app.clients, peer, head: head.bytes });
    // What is recorded must not become a place for personal data.
    let own = (!id.is_recordable()).then(|| RequestId::new(now, &mut own_text));
    let given_id = own.map(|_| app.lookups.id_digest(id.as_str()));
    let recorded = own.unwrap_or(id);
    let via = (route == Some(Route::Mcp)).then_some(RequestVia::Mcp);
    let request = Request { id: recorded.as_str(), given_id, at: now, via, place: None };
    let mut recorder =
        Recorder { configured, client, caller: None, profile: None, is_recorded: false, turn, started };

    let answering = answer(app, route, is_preflight, head, body, request, &mut recorder);
    let answered = AssertUnwindSafe(answering).catch_unwind().await.unwrap_or(Err(Refusal::Panicked));
    let answered = match (answered, &recorder.client) {
        (Err(Refusal::Unauthorized(why)), Some(client)) => Err(client.unauthorized(why, now)),
        (answered, _) => answered,
    };
    let refusal = answered.as_ref().err();
    // A preflight is not a request for its route.
    let route = route.filter(|_| !is_preflight);
    if let (Some(asked), Some(refusal)) = (route.and_then(Route::asked), refusal) {
        recorder.refused(app, asked, request, refusal).await;
    }
    let Recorder { caller, is_recorded, .. } = recorder;
    let closes = refusal.is_some_and(Refusal::closes);
    if let Some(refusal) = refusal {
        log_fault(app, recorded.as_str(), refusal, started);
    }
    let outcome = Outcome::of(caller.as_ref(), refusal);
    app.metrics.record(route, outcome, started.elapsed());

    let mut answer = answered.unwrap_or_else(|refusal| match route {
        Some(Route::Mcp) => mcp::refused(&refusal, body.received()),
        _ => refusal.answer(),
    });
    if let Some(caller) = &caller {
        if outcome.is_refusal() {
            caller.count_refused();
        }
        if caller.is_sandbox() {
            answer.add_header(header::SANDBOX, "true");
        }
        fetch::tell_allowances(&mut answer, caller.allowances(now));
    }
    let max_body = route.map_or(configured.settings.max_body, |route| route.max_body(&configured.settings));
    let stays = !closes && body.can_be_skipped(max_body) && !app.is_stopping();
    let connection = if stays { head.connection } else { Persistence::Closes };
    if configured.settings.access_log {
        access::log(recorded.as_str(), route, &answer, outcome, caller.as_ref(), started.elapsed());
    }
    let head_only = head.method == "HEAD";
    let cors_lines = allowed_origin.map_or("", |allowed| match is_preflight {
        true => &allowed.preflight_lines,
        false => &allowed.lines,
    });
    let end = &turn.clock().end_of_head();
    let large =
        answer.write(&Envelope { request_id: id.as_str(), end, connection, head_only, cors_lines }, out);
    Answered { connection, large, max_body, is_turn_over: is_recorded }
}

/// Logs a fault of the service, once in a while if it comes again and again.
pub(crate) fn log_fault<D: LocalRead>(app: &App<D>, request_id: &str, refusal: &Refusal, at: Instant) {
    let Some(fault) = refusal.fault().filter(|fault| app.faults.is_new(fault, at)) else { return };
    match refusal.code() {
        ErrorCode::Internal => tracing::error!(request_id, fault, "internal error"),
        _ => tracing::error!(request_id, fault, "a request is answered 503"),
    }
}

/// Appends the answer to input that could not be read as a request to `out`. The connection then closes.
pub(crate) fn refuse_unread<D: LocalRead>(
    app: &App<D>,
    refusal: &Refusal,
    clock: &WorkerClock,
    out: &mut Vec<u8>,
) {
    let mut id_text = request_id::EMPTY;
    let id = RequestId::new(app.clock.now(), &mut id_text);
    let outcome = Outcome::of(None, Some(refusal));
    app.metrics.record(None, outcome, Duration::ZERO);
    let answer = refusal.answer();
    if app.now().settings.access_log {
        access::log(id.as_str(), None, &answer, outcome, None, Duration::ZERO);
    }
    let connection = Persistence::Closes;
    let envelope = Envelope {
        request_id: id.as_str(),
        end: &clock.end_of_head(),
        connection,
        head_only: false,
        cors_lines: "",
    };
    // A refusal is never large.
    let _ = answer.write(&envelope, out);
}

async fn answer<D: LocalRead>(
    app: &App<D>,
    route: Option<Route>,
    is_preflight: bool,
    head: &Head<'_>,
    body: &mut Body<'_, impl Stream>,
    request: Request<'_>,
    recorder: &mut Recorder<'_>,
) -> Result<Answer, Refusal> {
    if !head.is_sound {
        return Err(Refusal::BadRequest);
    }
    let route = route.ok_or(Refusal::NotFound)?;
    if is_preflight {
        return Ok(cors::preflight(route));
    }
    route.check_method(head.method)?;
    Ok(match route {
        Route::Fetch(operation) => {
            return fetch::fetch(app, operation, head, body, request, recorder).await;
        }
        // On the heap, so that no connection keeps room for it.
        Route::Batch => return Box::pin(batch::batch(app, head, body, request, recorder)).await,
        Route::Mcp => return Box::pin(mcp::mcp(app, head, body, request, recorder)).await,
        Route::Root => docs::redirect(app),
        Route::Healthz => health::alive(),
        Route::Readyz => health::ready(app),
        Route::OpenapiJson(version) => app.descriptions.of(version).json.answer(head),
        Route::OpenapiYaml(version) => app.descriptions.of(version).yaml.answer(head),
        Route::Docs => docs::PAGE.answer(head),
        Route::DocsStyle => docs::STYLE.answer(head),
        Route::DocsScript => docs::SCRIPT.answer(head),
    })
}
