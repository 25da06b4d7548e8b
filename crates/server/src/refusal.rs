//! Every reason to refuse a request, and the one place where each reason gets its answer.

use std::borrow::Cow;

use contactd_contract::{Error, ErrorCode, InternalError, InvalidReason, Operation, Submitted, header};
use contactd_core::store::StoreError;
use contactd_core::{LimitExceeded, LookupError, NotACaller, Profile, Reason, SandboxTrouble};
use http::StatusCode;

use crate::admission::Overloaded;
use crate::answer::{self, Answer};
use crate::mcp;

/// Seconds after which a client may retry when the service is unavailable.
const OVERLOAD_RETRY: u64 = 1;

#[derive(Debug)]
pub(crate) enum Refusal {
    /// Not valid HTTP, or HTTP that must not be served.
    BadRequest,
    /// The request line and headers are over the limit.
    HeadTooLarge,
    /// A page of this origin may not talk to `/mcp`.
    ForeignOrigin,
    /// A message to `/mcp`.
    Mcp(Box<mcp::Fault>),
    NotFound,
    MethodNotAllowed {
        allow: &'static str,
    },
    TooLarge,
    Timeout,
    Unauthorized(Unauthorized),
    Limit(LimitExceeded),
    NotJson,
    /// The body is compressed, or encoded in another way.
    Encoded,
    /// A batch is refused as a whole.
    InvalidBatch {
        message: String,
    },
    InvalidProfileUrl {
        message: String,
        reason: InvalidReason,
    },
    NotOnFile {
        operation: Operation,
        profile: Profile,
    },
    Store(StoreError),
    /// The lookup could not be recorded, so nothing is disclosed. Another node may be able to.
    Unrecorded,
    Panicked,
    Overloaded,
    /// The sandbox answers like this, whatever the state of the service is.
    Sandbox(SandboxTrouble),
    Stopping,
    /// Lookups cannot be recorded at the moment, or this node may not answer them, so none is answered.
    NotReady,
    /// The lease of this node has ended.
    NoLease,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Unauthorized {
    /// No token was sent.
    NoToken,
    InvalidToken(NotACaller),
    /// The token is valid, but not for this operation.
    InsufficientScope,
}

impl Refusal {
    pub(crate) fn invalid(operation: Operation, submitted: &Submitted<'_>, reason: InvalidReason) -> Self {
        Self::InvalidProfileUrl { message: submitted.refused(operation), reason }
    }

    pub(crate) fn of_lookup(error: LookupError, operation: Operation, profile: Profile) -> Self {
        match error {
            LookupError::NotFound => Self::NotOnFile { operation, profile },
            LookupError::Limit(limit) => Self::Limit(limit),
            LookupError::Store(error) => Self::Store(error),
            LookupError::Sandbox(trouble) => Self::Sandbox(trouble),
            LookupError::Audit => Self::Unrecorded,
            LookupError::NoLease => Self::NoLease,
        }
    }

    // No `_` arm: a new variant must choose its code before this compiles.
    pub(crate) fn code(&self) -> ErrorCode {
        match self {
            Self::BadRequest | Self::HeadTooLarge | Self::ForeignOrigin | Self::Mcp(_) => {
                ErrorCode::BadRequest
            }
            Self::NotFound => ErrorCode::NotFound,
            Self::MethodNotAllowed { .. } => ErrorCode::MethodNotAllowed,
            Self::TooLarge => ErrorCode::RequestTooLarge,
            Self::Timeout => ErrorCode::RequestTimeout,
            Self::Unauthorized(_) => ErrorCode::NoAuthorizationFound,
            Self::Limit(LimitExceeded::Rate { .. }) => ErrorCode::RateLimited,
            Self::Limit(LimitExceeded::Quota { .. }) => ErrorCode::QuotaExceeded,
            Self::Limit(LimitExceeded::Unleased) => ErrorCode::ServiceUnavailable,
            Self::NotJson | Self::Encoded => ErrorCode::UnsupportedMediaType,
            Self::InvalidBatch { .. } => ErrorCode::InvalidBatch,
            Self::InvalidProfileUrl { .. } => ErrorCode::InvalidProfileUrl,
            Self::NotOnFile { .. } => ErrorCode::ContactNotFound,
            Self::Store(StoreError::Unavailable(_) | StoreError::OutcomeUnknown(_) | StoreError::Busy) => {
                ErrorCode::ServiceUnavailable
            }
            Self::Store(
                StoreError::Engine(_)
                | StoreError::Damaged(_)
                | StoreError::Tampered(_)
                | StoreError::SchemaTooNew { .. }
                | StoreError::NotNoted
                | StoreError::Pending(_),
            )
            | Self::Panicked
            | Self::Sandbox(SandboxTrouble::Fault) => ErrorCode::Internal,
            Self::Unrecorded
            | Self::Overloaded
            | Self::Sandbox(SandboxTrouble::Busy)
            | Self::Stopping
            | Self::NotReady
            | Self::NoLease => ErrorCode::ServiceUnavailable,
        }
    }

    /// Whether the service cannot answer as it should. What the sandbox makes up is no trouble.
    pub(crate) fn is_trouble(&self) -> bool {
        let is_made_up = matches!(self, Self::Sandbox(_));
        !is_made_up && matches!(self.code(), ErrorCode::Internal | ErrorCode::ServiceUnavailable)
    }

    /// Whether the connection closes after the answer, because no later request can or should be read.
    pub(crate) fn closes(&self) -> bool {
        matches!(
            self,
            Self::BadRequest | Self::HeadTooLarge | Self::TooLarge | Self::Timeout | Self::Panicked
        )
    }

    pub(crate) fn answer(&self) -> Answer {
        let mut answer = answer::json(self.status(), self.body());
        if let Some((name, value)) = self.header() {
            answer.add_header(name, value);
        }
        answer
    }

    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::HeadTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::ForeignOrigin => StatusCode::FORBIDDEN,
            Self::Mcp(fault) => fault.status,
            _ => StatusCode::from_u16(self.code().http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
        }
    }

    pub(crate) fn body(&self) -> Vec<u8> {
        let message = self.message();
        match self.code().status() {
            Some(status) => answer::body(&Error { status: status.into(), message }),
            None => answer::body(&InternalError { message }),
        }
    }

    pub(crate) fn message(&self) -> Cow<'_, str> {
        match self {
            Self::InvalidProfileUrl { message, .. } | Self::InvalidBatch { message } => message.into(),
            Self::NotOnFile { operation, profile } => {
                ErrorCode::not_on_file(*operation, profile.as_str()).into()
            }
            Self::Encoded => ErrorCode::ENCODED_BODY.into(),
            Self::HeadTooLarge => "The request line and headers are too large.".into(),
            Self::ForeignOrigin => "Pages of this origin are not allowed here.".into(),
            _ => self.code().message().into(),
        }
    }

    pub(crate) fn header(&self) -> Option<(&'static str, Cow<'static, str>)> {
        Some(match self {
            Self::MethodNotAllowed { allow } => ("allow", (*allow).into()),
            Self::Unauthorized(why) => ("www-authenticate", why.challenge()),
            Self::InvalidProfileUrl { reason, .. } => (header::INVALID_REASON, reason.code.into()),
            Self::Encoded => ("accept-encoding", "identity".into()),
            _ => match self.retry_after()? {
                OVERLOAD_RETRY => ("retry-after", "1".into()),
                seconds => ("retry-after", seconds.to_string().into()),
            },
        })
    }

    /// Seconds after which a client may retry.
    pub(crate) fn retry_after(&self) -> Option<u64> {
        match self {
            Self::Limit(LimitExceeded::Rate { retry_after } | LimitExceeded::Quota { retry_after }) => {
                Some(*retry_after)
            }
            Self::Unrecorded
            | Self::Overloaded
            | Self::Sandbox(SandboxTrouble::Busy)
            | Self::Stopping
            | Self::NotReady
            | Self::NoLease
            | Self::Limit(LimitExceeded::Unleased)
            | Self::Store(StoreError::Unavailable(_) | StoreError::Busy) => Some(OVERLOAD_RETRY),
            _ => None,
        }
    }

    /// Why a `profileUrl` was refused.
    pub(crate) fn reason(&self) -> Option<InvalidReason> {
        match self {
            Self::InvalidProfileUrl { reason, .. } => Some(*reason),
            _ => None,
        }
    }

    /// For the log: a fault of the service, described without anything from the request.
    pub(crate) fn fault(&self) -> Option<String> {
        match self {
            Self::Store(error) => Some(error.to_string()),
            Self::Unrecorded => Some(
                "the audit line could not be written in time; check the disk that holds audit/".to_owned(),
            ),
            Self::Panicked => Some("a handler panicked".to_owned()),
            Self::Limit(LimitExceeded::Unleased) => Some(LimitExceeded::Unleased.to_string()),
            // The node says why it has no lease.
            _ => None,
        }
    }
}

impl From<Overloaded> for Refusal {
    fn from(Overloaded: Overloaded) -> Self {
        Self::Overloaded
    }
}

impl Unauthorized {
    fn challenge(self) -> Cow<'static, str> {
        match self {
            Self::NoToken => "Bearer".into(),
            Self::InvalidToken(why) => {
                format!("Bearer error=\"invalid_token\", error_description=\"{why}\"").into()
            }
            Self::InsufficientScope => {
                "Bearer error=\"insufficient_scope\", error_description=\"not for this operation\"".into()
            }
        }
    }
}

/// The reason that clients see for a URL that a rule refused.
// No `_` arm: a new reason must choose its code before this compiles.
pub const fn invalid_reason(reason: Reason) -> InvalidReason {
    match reason {
        Reason::Empty => InvalidReason::EMPTY,
        Reason::TooLong => InvalidReason::TOO_LONG,
        Reason::ControlChar => InvalidReason::CONTROL_CHAR,
        Reason::NotAUrl => InvalidReason::NOT_A_URL,
        Reason::BadScheme => InvalidReason::BAD_SCHEME,
        Reason::Userinfo => InvalidReason::USERINFO,
        Reason::BadPort => InvalidReason::BAD_PORT,
        Reason::BadHost => InvalidReason::BAD_HOST,
        Reason::UnsupportedSubdomain => InvalidReason::UNSUPPORTED_SUBDOMAIN,
        Reason::ShortLink => InvalidReason::SHORT_LINK,
        Reason::EmptySegment => InvalidReason::EMPTY_SEGMENT,
        Reason::BadEncoding => InvalidReason::BAD_ENCODING,
        Reason::PathTraversal => InvalidReason::PATH_TRAVERSAL,
        Reason::BadLegacy => InvalidReason::BAD_LEGACY,
        Reason::NotPerson => InvalidReason::NOT_PERSON,
        Reason::InternalId => InvalidReason::INTERNAL_ID,
        Reason::NoSlug => InvalidReason::NO_SLUG,
        Reason::BadSlug => InvalidReason::BAD_SLUG,
        Reason::ReservedSlug => InvalidReason::RESERVED_SLUG,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_keeps_its_code_on_the_wire() {
        for reason in Reason::ALL {
            assert_eq!(invalid_reason(reason).code, reason.code());
        }
    }
}
