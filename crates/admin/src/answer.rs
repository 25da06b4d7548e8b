//! Answers.

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};

/// An answer with this content type, which caches must not store.
pub(crate) fn of_type(code: StatusCode, content_type: &'static str, body: String) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
