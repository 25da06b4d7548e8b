//! The route table, and what is done for every request.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::api::Refusal;
use crate::{Admin, answer, metrics, request_id};

/// All routes.
pub(crate) fn router(admin: Arc<Admin>) -> Router {
    let console = admin.console.router();
    Router::new()
        .route("/metrics", get(show_metrics))
        .with_state(Arc::clone(&admin))
        .merge(console)
        .method_not_allowed_fallback(method_not_allowed)
        .fallback(not_found)
        .layer(middleware::from_fn_with_state(admin, around))
}

/// `GET /metrics`
async fn show_metrics(State(admin): State<Arc<Admin>>) -> Response {
    answer::of_type(StatusCode::OK, metrics::CONTENT_TYPE, metrics::page(&admin).await)
}

async fn not_found() -> Refusal {
    Refusal::not_found("There is nothing at this path.")
}

async fn method_not_allowed() -> Refusal {
    let message = "This method is not allowed here; the Allow header lists those that are.";
    Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message)
}

/// Refuses unknown hosts, and adds the request id to every answer.
async fn around(State(admin): State<Arc<Admin>>, request: Request, next: Next) -> Response {
    let id = request_id::of(request.headers(), &*admin.clock);
    let mut response = match check_host(&admin, &request) {
        // A task of its own: what a request has begun is done to its end, also if its client has gone.
        Ok(()) => {
            tokio::spawn(next.run(request)).await.unwrap_or_else(|_| Refusal::internal().into_response())
        }
        Err(refused) => refused.into_response(),
    };
    response.headers_mut().insert(request_id::NAME, id);
    response
}

fn check_host(admin: &Admin, request: &Request) -> Result<(), Refusal> {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let named = request.uri().authority().map(|authority| authority.as_str().to_owned());
    let (host, second) = (hosts.next(), hosts.next());
    let (Some(Ok(host)), None) = (host.map(HeaderValue::to_str), second) else {
        let message = "The request has no Host, or more than one.";
        return Err(Refusal::new(StatusCode::BAD_REQUEST, "bad_request", message));
    };
    if admin.hosts.allow(host) && named.is_none_or(|named| admin.hosts.allow(&named)) {
        return Ok(());
    }
    let message =
        "This name is not served here. Use an IP address or localhost, or list the name in admin.hosts.";
    Err(Refusal::new(StatusCode::MISDIRECTED_REQUEST, "misdirected_request", message))
}
