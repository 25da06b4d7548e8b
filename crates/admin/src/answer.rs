//! Answers. Errors have the same JSON format as on the public listener.

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};

/// An error in the format of the contract.
pub(crate) fn error(code: StatusCode, status: &str, message: &str) -> Response<Body> {
    let body = serde_json::json!({ "status": status, "message": message }).to_string();
    of_type(code, "application/json", body)
}

/// An answer with this content type, which caches must not store.
pub(crate) fn of_type(code: StatusCode, content_type: &'static str, body: String) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
