//! The route table.

use contactd_contract::{Operation, path};

use crate::refusal::Refusal;

/// All routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    Fetch(Operation),
    Root,
    Healthz,
    Readyz,
    OpenapiJson,
    OpenapiYaml,
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
            path::ROOT => Self::Root,
            // The base path without a slash at the end.
            "" if !base_path.is_empty() => Self::Root,
            path::HEALTHZ => Self::Healthz,
            path::READYZ => Self::Readyz,
            path::OPENAPI_JSON => Self::OpenapiJson,
            path::OPENAPI_YAML => Self::OpenapiYaml,
            path::DOCS => Self::Docs,
            "/docs/style.css" => Self::DocsStyle,
            "/docs/app.js" => Self::DocsScript,
            _ => return None,
        })
    }

    pub(crate) fn check_method(self, method: &str) -> Result<(), Refusal> {
        let allowed = match self {
            Self::Fetch(_) => method == "POST",
            _ => matches!(method, "GET" | "HEAD"),
        };
        if allowed { Ok(()) } else { Err(Refusal::MethodNotAllowed { allow: self.methods() }) }
    }

    /// The methods of this route, as a header lists them.
    pub(crate) const fn methods(self) -> &'static str {
        match self {
            Self::Fetch(_) => "POST",
            _ => "GET, HEAD",
        }
    }
}
