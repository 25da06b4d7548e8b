//! The one route table, and what happens around every request.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use contactd_contract::{Operation, header, path};
use contactd_core::store::Details;
use contactd_core::{Caller, Timestamp};
use http::header::{CONNECTION, EXPECT, HOST, TRANSFER_ENCODING};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Version};
use hyper::body::{Body, Incoming};

use crate::answer::Answer;
use crate::connection::Exchange;
use crate::refusal::Refusal;
use crate::{App, access, body, docs, fetch, health, metrics, panics, request_id};

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

    fn check_method(self, method: &Method) -> Result<(), Refusal> {
        let (allowed, allow) = match self {
            Self::Fetch(_) => (*method == Method::POST, "POST"),
            _ => (matches!(*method, Method::GET | Method::HEAD), "GET, HEAD"),
        };
        if allowed { Ok(()) } else { Err(Refusal::MethodNotAllowed { allow }) }
    }
}

/// Answers one request: whatever happens, there is an answer, with a request id.
pub(crate) async fn handle<D: Details>(
    app: &Arc<App<D>>,
    site: Site,
    exchange: &Exchange,
    request: Request<Incoming>,
) -> Answer {
    let started = Instant::now();
    let now = app.clock.now();
    let (request, mut body) = request.into_parts();
    let id = request_id::of(&request.headers, now);
    let route = Route::find(site, &app.settings.base_path, request.uri.path());
    let mut caller = None;

    let answering = answer(app, route, &request, &mut body, exchange, now, &mut caller);
    let answered = panics::caught(answering).await.unwrap_or(Err(Refusal::Panicked));
    let refusal = answered.as_ref().err();
    let closes = refusal.is_some_and(Refusal::closes);
    let unread = !body.is_end_stream()
        && (closes || request.headers.contains_key(EXPECT) || !body::drop_what_is_there(&mut body).await);
    if unread {
        exchange.linger();
    }
    if let Some(fault) = refusal.and_then(Refusal::fault) {
        tracing::error!(request_id = id.to_str().unwrap_or_default(), fault, "internal error");
    }
    let outcome = app.metrics.record(route, refusal.map(Refusal::code), started.elapsed());

    let mut answer = answered.unwrap_or_else(|refusal| refusal.answer());
    if let Some(caller) = &caller {
        if outcome.is_refusal() {
            caller.count_refused();
        }
        fetch::tell_allowances(answer.headers_mut(), caller.allowances(now));
    }
    if unread || closes || app.is_stopping() {
        answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    answer.headers_mut().insert(HeaderName::from_static(header::REQUEST_ID), id);
    if app.settings.access_log {
        access::log(route, &answer, outcome, caller.as_ref(), started.elapsed());
    }
    answer
}

async fn answer<D: Details>(
    app: &Arc<App<D>>,
    route: Option<Route>,
    request: &Parts,
    body: &mut Incoming,
    exchange: &Exchange,
    now: Timestamp,
    caller: &mut Option<Caller>,
) -> Result<Answer, Refusal> {
    let is_served = has_one_host(request.version, &request.headers) && is_plainly_chunked(&request.headers);
    if exchange.had_bare_line_feed() || !is_served {
        return Err(Refusal::BadRequest);
    }
    let route = route.ok_or(Refusal::NotFound)?;
    route.check_method(&request.method)?;
    Ok(match route {
        Route::Fetch(operation) => {
            let _place = Place::take(app)?;
            return fetch::fetch(app, operation, request, body, now, caller).await;
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

/// HTTP/1.1 wants exactly one Host that could be one; HTTP/1.0 may have none.
fn has_one_host(version: Version, headers: &HeaderMap) -> bool {
    let mut hosts = headers.get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(host), None) => {
            host.as_bytes().iter().all(|b| b.is_ascii_graphic() && !b"/?#@\\,<>\"".contains(b))
        }
        (None, _) => version == Version::HTTP_10,
        (Some(_), Some(_)) => false,
    }
}

/// A body comes as it is or in chunks, not encoded in any other way.
fn is_plainly_chunked(headers: &HeaderMap) -> bool {
    let mut encodings = headers.get_all(TRANSFER_ENCODING).iter();
    match (encodings.next(), encodings.next()) {
        (None, _) => true,
        (Some(encoding), None) => encoding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked"),
        (Some(_), Some(_)) => false,
    }
}
