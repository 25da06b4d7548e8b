//! Answers: JSON, or an asset.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::Full;
use serde::Serialize;

pub(crate) type Answer = Response<Full<Bytes>>;

/// A JSON answer. None of ours may be stored by a cache.
pub(crate) fn json(status: StatusCode, body: &[u8]) -> Answer {
    json_bytes(status, Bytes::copy_from_slice(body))
}

pub(crate) fn found(body: &impl Serialize) -> Answer {
    json_bytes(StatusCode::OK, self::body(body).into())
}

fn json_bytes(status: StatusCode, body: Bytes) -> Answer {
    let mut answer = of_type("application/json", body);
    *answer.status_mut() = status;
    answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

pub(crate) fn of_type(content_type: &'static str, body: Bytes) -> Answer {
    let mut answer = Response::new(Full::new(body));
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    answer
}

pub(crate) fn body(shape: &impl Serialize) -> Vec<u8> {
    // Our shapes are strings in named fields: writing them cannot fail.
    serde_json::to_vec(shape).unwrap_or_default()
}
