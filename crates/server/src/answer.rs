//! Answers (JSON or an asset), and how they are written to the connection.

use std::borrow::Cow;

use bytes::Bytes;
use contactd_contract::header;
use http::StatusCode;
use serde::Serialize;

use crate::head::Persistence;

/// The answer to a request, without the parts that are in every answer (see [`Envelope`]).
#[derive(Debug)]
pub(crate) struct Answer {
    status: StatusCode,
    /// Complete header lines that this kind of answer always has, beginning with its type.
    fixed_lines: &'static str,
    headers: Vec<(&'static str, Cow<'static, str>)>,
    body: Bytes,
}

/// Bodies larger than this are not copied.
const LARGE: usize = 4 * 1024;

const JSON: &str = "content-type: application/json\r\ncache-control: no-store\r\n";

/// A JSON answer, which caches must not store.
pub(crate) fn json(status: StatusCode, body: impl Into<Bytes>) -> Answer {
    Answer { status, fixed_lines: JSON, headers: Vec::new(), body: body.into() }
}

/// Any other answer. `fixed_lines` are complete header lines, each with its line end, beginning with the content type.
pub(crate) fn of_type(fixed_lines: &'static str, body: Bytes) -> Answer {
    Answer { status: StatusCode::OK, fixed_lines, headers: Vec::new(), body }
}

/// Says that a client has the newest version of such an answer.
pub(crate) fn unchanged(fixed_lines: &'static str) -> Answer {
    Answer { status: StatusCode::NOT_MODIFIED, fixed_lines, headers: Vec::new(), body: Bytes::new() }
}

/// An answer that has no body, and so no type and no length.
pub(crate) fn without_body(status: StatusCode) -> Answer {
    Answer { status, fixed_lines: "", headers: Vec::new(), body: Bytes::new() }
}

pub(crate) fn body(shape: &impl Serialize) -> Vec<u8> {
    // These types only have named string fields, so serialising them cannot fail.
    serde_json::to_vec(shape).unwrap_or_default()
}

/// The parts that are in every answer.
pub(crate) struct Envelope<'a> {
    pub(crate) request_id: &'a str,
    /// The line with the date, and the empty line after it.
    pub(crate) end: &'a str,
    pub(crate) connection: Persistence,
    /// The request was HEAD: headers are sent as usual, but no body.
    pub(crate) head_only: bool,
    /// Complete header lines for a browser, or nothing.
    pub(crate) cors_lines: &'a str,
}

impl Answer {
    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    /// Adds a header. `value` must come from this service: no line ends and nothing from a request.
    pub(crate) fn add_header(&mut self, name: &'static str, value: impl Into<Cow<'static, str>>) {
        self.headers.push((name, value.into()));
    }

    /// Appends the answer to `out` as it is sent. A large body is not appended but returned, so that the
    /// caller can write it without copying.
    #[must_use]
    pub(crate) fn write(self, envelope: &Envelope<'_>, out: &mut Vec<u8>) -> Option<Bytes> {
        let mut text = |parts: &[&str]| parts.iter().for_each(|part| out.extend_from_slice(part.as_bytes()));
        if self.status == StatusCode::OK {
            text(&["HTTP/1.1 200 OK\r\n"]);
        } else {
            let reason = self.status.canonical_reason().unwrap_or_default();
            text(&["HTTP/1.1 ", self.status.as_str(), " ", reason, "\r\n"]);
        }
        text(&[self.fixed_lines, envelope.cors_lines]);
        for (name, value) in &self.headers {
            text(&[name, ": ", value, "\r\n"]);
        }
        match envelope.connection {
            Persistence::Stays => {}
            Persistence::StaysOnRequest => text(&["connection: keep-alive\r\n"]),
            Persistence::Closes => text(&["connection: close\r\n"]),
        }
        text(&[header::REQUEST_ID, ": ", envelope.request_id]);
        if !matches!(self.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED) {
            text(&["\r\ncontent-length: ", itoa::Buffer::new().format(self.body.len())]);
        }
        text(&[envelope.end]);
        if envelope.head_only {
            return None;
        }
        if self.body.len() > LARGE {
            return Some(self.body);
        }
        out.extend_from_slice(&self.body);
        None
    }
}
