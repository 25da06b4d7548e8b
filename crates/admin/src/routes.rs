//! The route table, and what is done for every request.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Response, StatusCode, header};
use axum::middleware::{self, Next};
use axum::routing::get;

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
async fn show_metrics(State(admin): State<Arc<Admin>>) -> Response<Body> {
    answer::of_type(StatusCode::OK, metrics::CONTENT_TYPE, metrics::page(&admin).await)
}

async fn not_found() -> Response<Body> {
    answer::error(StatusCode::NOT_FOUND, "not_found", "There is nothing at this path.")
}

async fn method_not_allowed() -> Response<Body> {
    let message = "This method is not allowed here; the Allow header lists those that are.";
    answer::error(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message)
}

/// Refuses unknown hosts, and adds the request id to every answer.
async fn around(State(admin): State<Arc<Admin>>, request: Request, next: Next) -> Response<Body> {
    let id = request_id::of(request.headers(), &*admin.clock);
    let mut response = match check_host(&admin, &request) {
        // A task of its own: what a request has begun is done to its end, also if its client has gone.
        Ok(()) => tokio::spawn(next.run(request)).await.unwrap_or_else(|_| {
            let message = "Internal server error. The log says more.";
            answer::error(StatusCode::INTERNAL_SERVER_ERROR, "internal", message)
        }),
        Err(refused) => *refused,
    };
    response.headers_mut().insert(request_id::NAME, id);
    response
}

fn check_host(admin: &Admin, request: &Request) -> Result<(), Box<Response<Body>>> {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let named = request.uri().authority().map(|authority| authority.as_str().to_owned());
    let (host, second) = (hosts.next(), hosts.next());
    let host = match (host.map(HeaderValue::to_str), second) {
        (Some(Ok(host)), None) => host,
        _ => {
            let message = "The request has no Host, or more than one.";
            return Err(Box::new(answer::error(StatusCode::BAD_REQUEST, "bad_request", message)));
        }
    };
    if admin.hosts.allow(host) && named.is_none_or(|named| admin.hosts.allow(&named)) {
        return Ok(());
    }
    let message =
        "This name is not served here. Use an IP address or localhost, or list the name in admin.hosts.";
    Err(Box::new(answer::error(StatusCode::MISDIRECTED_REQUEST, "misdirected_request", message)))
}
