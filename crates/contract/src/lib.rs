//! The wire contract: paths, response types, the closed list of errors, and the OpenAPI document
//! that describes them.
//!
//! This crate depends on no other crate of this project and does no I/O. Every change of the
//! contract must show in `openapi.json` and in the CHANGELOG.

mod error;
pub mod openapi;
mod operation;
mod reason;
mod shapes;

pub use error::{ErrorCode, Submitted};
pub use operation::Operation;
pub use reason::InvalidReason;
pub use shapes::{BatchAnswer, BatchResult, EmailFound, Error, InternalError, PhoneFound};

/// Maximum number of characters of a submitted value that an error message repeats.
pub const MAX_REPEATED_CHARS: usize = 2_048;

/// Names of the headers that this service defines.
pub mod header {
    /// Why a `profileUrl` was refused: an [`InvalidReason`](crate::InvalidReason) code.
    pub const INVALID_REASON: &str = "x-invalid-reason";
    /// The request's id, taken from the request or generated.
    pub const REQUEST_ID: &str = "x-request-id";
    /// What remains of the allowances of a limited token.
    pub const RATE_LIMIT: &str = "ratelimit";
    /// The allowances of a limited token.
    pub const RATE_LIMIT_POLICY: &str = "ratelimit-policy";
    /// The sandbox made the answer up.
    pub const SANDBOX: &str = "x-contactd-sandbox";
}

/// Paths of the public listener that are not the two operations.
pub mod path {
    /// Several lookups in one request.
    pub const BATCH: &str = "/api/batch";
    /// The Model Context Protocol, for agents.
    pub const MCP: &str = "/mcp";
    /// The OpenAPI document of the two operations as JSON.
    pub const OPENAPI_JSON: &str = "/openapi.json";
    /// The same as YAML.
    pub const OPENAPI_YAML: &str = "/openapi.yaml";
    /// The OpenAPI document of everything as JSON.
    pub const OPENAPI_1_1_JSON: &str = "/openapi-1.1.json";
    /// The same as YAML.
    pub const OPENAPI_1_1_YAML: &str = "/openapi-1.1.yaml";
    /// Leads to the documentation page.
    pub const ROOT: &str = "/";
    /// The interactive documentation page.
    pub const DOCS: &str = "/docs";
    /// Whether the process is alive.
    pub const HEALTHZ: &str = "/healthz";
    /// Whether the service is ready for requests.
    pub const READYZ: &str = "/readyz";
}
