//! Which web pages of other origins may call the service from a browser, and what their browsers are told.
//!
//! The header lines for each allowed origin are made when the configuration is read, so a request only compares its `Origin` and copies
//! them. Without allowed origins, nothing is compared.

use http::StatusCode;

use crate::Origin;
use crate::answer::{self, Answer};
use crate::head::{Field, Head};
use crate::route::Route;

/// The request headers that a page may send.
const REQUEST_HEADERS: &str = "authorization, content-type, x-request-id";

/// Those that it may send to `/mcp` besides.
const MCP_REQUEST_HEADERS: &str = "mcp-protocol-version, mcp-method, mcp-name";

/// The answer headers that a page may read, besides those that every page may read.
const EXPOSED: &str = "X-Invalid-Reason, X-Request-Id, Retry-After, RateLimit, RateLimit-Policy, WWW-Authenticate, X-Contactd-Sandbox";

/// How many seconds a browser may remember the answer to a preflight: as long as Chromium does at most.
const MAX_AGE: &str = "7200";

pub(crate) struct Cors {
    allowed: Vec<AllowedOrigin>,
}

/// An allowed origin, with the complete header lines of answers to it.
pub(crate) struct AllowedOrigin {
    origin: Origin,
    pub(crate) lines: String,
    pub(crate) preflight_lines: String,
}

impl Cors {
    pub(crate) fn new(origins: &[Origin]) -> Self {
        Self { allowed: origins.iter().cloned().map(AllowedOrigin::new).collect() }
    }

    /// The allowed origin that a request comes from. Browsers send exactly one.
    pub(crate) fn find(&self, origin: Field<'_>) -> Option<&AllowedOrigin> {
        let Field::Once(origin) = origin else { return None };
        self.allowed.iter().find(|allowed| allowed.origin.as_str().as_bytes() == origin)
    }
}

impl AllowedOrigin {
    fn new(origin: Origin) -> Self {
        let both = format!("access-control-allow-origin: {}\r\nvary: Origin\r\n", origin.as_str());
        let lines = format!("{both}access-control-expose-headers: {EXPOSED}\r\n");
        let preflight_lines = format!(
            "{both}access-control-allow-headers: {REQUEST_HEADERS}\r\naccess-control-max-age: {MAX_AGE}\r\n"
        );
        Self { origin, lines, preflight_lines }
    }
}

/// Whether the request asks if another one would be allowed.
pub(crate) fn is_preflight(head: &Head<'_>) -> bool {
    head.requests_method && head.method == "OPTIONS"
}

/// The answer to a preflight, without the lines of its origin.
pub(crate) fn preflight(route: Route) -> Answer {
    let mut answer = answer::without_body(StatusCode::NO_CONTENT);
    answer.add_header("access-control-allow-methods", route.methods());
    if route == Route::Mcp {
        answer.add_header("access-control-allow-headers", MCP_REQUEST_HEADERS);
    }
    answer
}
