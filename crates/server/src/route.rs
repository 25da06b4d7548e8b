//! The route table.

use contactd_contract::{Operation, path};
use contactd_core::Asked;

use crate::Settings;
use crate::lookup::kind;
use crate::refusal::Refusal;

/// The versions of the OpenAPI document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    V1_0,
    V1_1,
}

/// All routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    Fetch(Operation),
    Batch,
    Mcp,
    Root,
    Healthz,
    Readyz,
    OpenapiJson(Version),
    OpenapiYaml(Version),
    Docs,
    DocsStyle,
    DocsScript,
}

impl Route {
    /// The route of a path below the base path.
    pub(crate) fn find(base_path: &str, path: &str) -> Option<Self> {
        Some(match path.strip_prefix(base_path)? {
            path if path == Operation::FetchPhoneNumber.path() => Self::Fetch(Operation::FetchPhoneNumber),
            path if path == Operation::FetchPersonalEmail.path() => {
                Self::Fetch(Operation::FetchPersonalEmail)
            }
            path::BATCH => Self::Batch,
            path::MCP => Self::Mcp,
            path::ROOT => Self::Root,
            // The base path without a slash at the end.
            "" if !base_path.is_empty() => Self::Root,
            path::HEALTHZ => Self::Healthz,
            path::READYZ => Self::Readyz,
            path::OPENAPI_JSON => Self::OpenapiJson(Version::V1_0),
            path::OPENAPI_YAML => Self::OpenapiYaml(Version::V1_0),
            path::OPENAPI_1_1_JSON => Self::OpenapiJson(Version::V1_1),
            path::OPENAPI_1_1_YAML => Self::OpenapiYaml(Version::V1_1),
            path::DOCS => Self::Docs,
            "/docs/style.css" => Self::DocsStyle,
            "/docs/app.js" => Self::DocsScript,
            _ => return None,
        })
    }

    /// What a request asks for, if it is for a caller.
    pub(crate) const fn asked(self) -> Option<Asked> {
        match self {
            Self::Fetch(operation) => Some(Asked::Detail(kind(operation))),
            Self::Batch => Some(Asked::Batch),
            Self::Mcp => Some(Asked::Mcp),
            _ => None,
        }
    }

    /// How large the body of a request may be.
    pub(crate) const fn max_body(self, settings: &Settings) -> usize {
        match self {
            Self::Batch => settings.max_batch_body,
            _ => settings.max_body,
        }
    }

    pub(crate) fn check_method(self, method: &str) -> Result<(), Refusal> {
        let allowed = match self {
            Self::Fetch(_) | Self::Batch | Self::Mcp => method == "POST",
            _ => matches!(method, "GET" | "HEAD"),
        };
        if allowed { Ok(()) } else { Err(Refusal::MethodNotAllowed { allow: self.methods() }) }
    }

    /// The methods of this route, as a header lists them.
    pub(crate) const fn methods(self) -> &'static str {
        match self {
            Self::Fetch(_) | Self::Batch | Self::Mcp => "POST",
            _ => "GET, HEAD",
        }
    }
}
