//! Messages that are refused, as JSON-RPC errors.

use std::borrow::Cow;

use http::StatusCode;
use serde_json::{Value, json};

use super::message;
use crate::answer::{self, Answer};
use crate::refusal::Refusal;

/// A message that is refused. The specification of the protocol has its codes.
#[derive(Debug)]
pub(crate) struct Fault {
    code: i64,
    pub(crate) status: StatusCode,
    message: Cow<'static, str>,
    data: Option<Box<Value>>,
    /// The id of the request as JSON, if it could be read.
    id: Option<String>,
}

impl Fault {
    fn new(code: i64, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, status: StatusCode::BAD_REQUEST, message: message.into(), data: None, id: None }
    }

    /// It is not JSON.
    pub(super) fn unreadable(message: &'static str) -> Self {
        Self::new(-32700, message)
    }

    /// It is no message.
    pub(super) fn invalid_request(message: &'static str) -> Self {
        Self::new(-32600, message)
    }

    pub(super) fn invalid_params(message: &'static str) -> Self {
        Self::new(-32602, message)
    }

    pub(super) fn unknown_method() -> Self {
        Self { status: StatusCode::NOT_FOUND, ..Self::new(-32601, "There is no such method here.") }
    }

    /// A header is missing, or says something else than the body.
    pub(super) fn header_mismatch(message: String) -> Self {
        Self::new(-32020, message)
    }

    pub(super) fn unsupported_version(requested: &str, supported: &[&str]) -> Self {
        let data = json!({ "supported": supported, "requested": requested });
        Self {
            data: Some(Box::new(data)),
            ..Self::new(-32022, "This version of the protocol is not supported.")
        }
    }

    /// The request has this id.
    #[must_use]
    pub(super) fn of(self, id: Option<&str>) -> Self {
        Self { id: id.map(str::to_owned), ..self }
    }

    /// Older clients take another status than 200 for a fault of the connection.
    #[must_use]
    pub(super) fn in_an_ok(self) -> Self {
        Self { status: StatusCode::OK, ..self }
    }

    pub(super) fn answer(&self) -> Answer {
        let mut error = json!({ "code": self.code, "message": self.message });
        if let Some(data) = &self.data {
            error["data"] = (**data).clone();
        }
        let id = self.id.as_ref().map(|id| format!(",\"id\":{id}")).unwrap_or_default();
        answer::json(self.status, format!("{{\"jsonrpc\":\"2.0\"{id},\"error\":{error}}}"))
    }
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        Self::Mcp(Box::new(fault))
    }
}

/// The answer to a request that is refused as a whole. What is not a matter of the protocol has its HTTP status as the code of the
/// error: the numbers below zero belong to the protocol. The id is looked for in the body, if that was received.
pub(crate) fn refused(refusal: &Refusal, body: Option<&[u8]>) -> Answer {
    if let Refusal::Mcp(fault) = refusal {
        return fault.answer();
    }
    let status = refusal.status();
    let code = if status == StatusCode::INTERNAL_SERVER_ERROR { -32603 } else { i64::from(status.as_u16()) };
    let data = Some(Box::new(json!({ "error_code": refusal.code().recorded() })));
    let id = body.and_then(message::id);
    let mut answer = Fault { status, data, id, ..Fault::new(code, refusal.message().into_owned()) }.answer();
    if let Some((name, value)) = refusal.header() {
        answer.add_header(name, value);
    }
    answer
}
