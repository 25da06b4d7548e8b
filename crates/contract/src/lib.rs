//! What goes over the wire, and nothing else: paths, shapes, the closed list of errors,
//! and the OpenAPI description made from the same types.
//!
//! This crate imports nothing of ours and does no I/O. A change here is a change of the
//! contract: it shows in `openapi.json` and in the CHANGELOG, or it is not one.

mod error;
pub mod openapi;
mod operation;
mod reason;
mod shapes;

pub use error::{ErrorCode, Submitted};
pub use operation::Operation;
pub use reason::InvalidReason;
pub use shapes::{EmailFound, Error, InternalError, LookupRequest, PhoneFound};

/// Longest submitted value that a refusal repeats, in characters.
pub const MAX_REPEATED_CHARS: usize = 2_048;

/// Names of the headers that are ours.
pub mod header {
    /// Why a `profileUrl` was refused: an [`InvalidReason`](crate::InvalidReason) code.
    pub const INVALID_REASON: &str = "x-invalid-reason";
    /// The request's id, taken from the request or made.
    pub const REQUEST_ID: &str = "x-request-id";
    /// What is left of a limited token's allowance.
    pub const RATE_LIMIT: &str = "ratelimit";
    /// Which allowances a limited token has.
    pub const RATE_LIMIT_POLICY: &str = "ratelimit-policy";
}

/// Paths of the public listener that are not operations.
pub mod path {
    /// The description as JSON.
    pub const OPENAPI_JSON: &str = "/openapi.json";
    /// The description as YAML.
    pub const OPENAPI_YAML: &str = "/openapi.yaml";
    /// The interactive page.
    pub const DOCS: &str = "/docs";
    /// Whether the process is alive.
    pub const HEALTHZ: &str = "/healthz";
    /// Whether it should be sent requests.
    pub const READYZ: &str = "/readyz";
}
