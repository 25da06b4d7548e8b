//! `X-Request-Id` on every answer, as on the public listener: the id sent by the client, or a new one.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use contactd_core::Clock;
use uuid::{NoContext, Timestamp, Uuid};

pub(crate) const NAME: HeaderName = HeaderName::from_static("x-request-id");

const MAX_CHARS: usize = 128;

/// The id for the answer to a request with these headers.
pub(crate) fn of(headers: &HeaderMap, clock: &dyn Clock) -> HeaderValue {
    let is_usable = |id: &&HeaderValue| {
        (1..=MAX_CHARS).contains(&id.len()) && id.as_bytes().iter().all(u8::is_ascii_graphic)
    };
    headers.get(NAME).filter(is_usable).cloned().unwrap_or_else(|| new(clock))
}

fn new(clock: &dyn Clock) -> HeaderValue {
    let millis = u64::try_from(clock.now().millis()).unwrap_or(0);
    let nanos = u32::try_from(millis % 1_000 * 1_000_000).unwrap_or(0);
    let id = Uuid::new_v7(Timestamp::from_unix(NoContext, millis / 1_000, nanos)).to_string();
    HeaderValue::from_str(&id).unwrap_or_else(|_| HeaderValue::from_static("none"))
}
