//! The closed list of errors, each with its code, HTTP status and message.

use std::borrow::Cow;

use crate::{MAX_REPEATED_CHARS, Operation};

/// Every error that a request can be answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorCode {
    /// The body or its `profileUrl` cannot be accepted.
    InvalidProfileUrl,
    /// The body of a batch cannot be accepted.
    InvalidBatch,
    /// The request is readable HTTP but must not be served.
    BadRequest,
    /// The request has no valid token for this operation.
    NoAuthorizationFound,
    /// The store has no detail of this kind for the profile.
    ContactNotFound,
    /// The path does not exist.
    NotFound,
    /// The path exists but does not allow this method.
    MethodNotAllowed,
    /// The body did not arrive in time.
    RequestTimeout,
    /// The body is larger than the limit.
    RequestTooLarge,
    /// The body is declared as something other than JSON, or as encoded.
    UnsupportedMediaType,
    /// The token has reached its rate limit.
    RateLimited,
    /// The token has used up its quota for the day or month.
    QuotaExceeded,
    /// An internal error of the service.
    Internal,
    /// The service is overloaded or stopping and did not process the request.
    ServiceUnavailable,
}

impl ErrorCode {
    /// All codes, ordered by HTTP status.
    pub const ALL: [Self; 14] = [
        Self::InvalidProfileUrl,
        Self::InvalidBatch,
        Self::BadRequest,
        Self::NoAuthorizationFound,
        Self::ContactNotFound,
        Self::NotFound,
        Self::MethodNotAllowed,
        Self::RequestTimeout,
        Self::RequestTooLarge,
        Self::UnsupportedMediaType,
        Self::RateLimited,
        Self::QuotaExceeded,
        Self::Internal,
        Self::ServiceUnavailable,
    ];

    /// The message of [`UnsupportedMediaType`](Self::UnsupportedMediaType) for a body with a `Content-Encoding`.
    pub const ENCODED_BODY: &str = "The request body must not be encoded; send it without Content-Encoding.";

    /// The `status` field of the body. An internal error has none.
    pub const fn status(self) -> Option<&'static str> {
        let (_, status, _) = self.described();
        if status.is_empty() { None } else { Some(status) }
    }

    /// The code as the journal and metrics have it. An internal error has one there.
    pub fn recorded(self) -> &'static str {
        self.status().unwrap_or("internal_error")
    }

    /// The HTTP status code.
    pub const fn http_status(self) -> u16 {
        self.described().0
    }

    /// The fixed message. Some errors have a message that depends on the request instead:
    /// see [`Submitted::refused`], [`ErrorCode::not_on_file`] and [`ErrorCode::ENCODED_BODY`]. That of a batch says where it is not
    /// valid.
    pub const fn message(self) -> &'static str {
        self.described().2
    }

    const fn described(self) -> (u16, &'static str, &'static str) {
        match self {
            Self::InvalidProfileUrl => (400, "invalid_profile_url", "Invalid profileUrl."),
            Self::InvalidBatch => (400, "invalid_batch", "The batch is not valid."),
            Self::BadRequest => (400, "bad_request", "The request is not valid HTTP/1.1 for this service."),
            Self::NoAuthorizationFound => (401, "no_authorization_found", "No authorization found."),
            Self::ContactNotFound => (404, "contact_not_found", "No contact found."),
            Self::NotFound => (404, "not_found", "There is nothing at this path."),
            Self::MethodNotAllowed => (
                405,
                "method_not_allowed",
                "This method is not allowed here; the Allow header lists those that are.",
            ),
            Self::RequestTimeout => (408, "request_timeout", "The request body did not arrive in time."),
            Self::RequestTooLarge => (413, "request_too_large", "The request body is too large."),
            Self::UnsupportedMediaType => (
                415,
                "unsupported_media_type",
                "The request body must be JSON (Content-Type: application/json).",
            ),
            Self::RateLimited => {
                (429, "rate_limited", "Too many requests; retry after the time in Retry-After.")
            }
            Self::QuotaExceeded => (
                429,
                "quota_exceeded",
                "The quota of this token is used up; it is renewed after the time in Retry-After.",
            ),
            Self::Internal => (500, "", "Internal server error."),
            Self::ServiceUnavailable => (
                503,
                "service_unavailable",
                "The service cannot take this request now; retry after the time in Retry-After.",
            ),
        }
    }

    /// The message when the store has no detail of this kind for the profile.
    pub fn not_on_file(operation: Operation, canonical_url: &str) -> String {
        format!("No {} found for {canonical_url}.", operation.sought())
    }

    /// The canonical URL in a message of [`not_on_file`](Self::not_on_file).
    pub fn url_not_on_file(operation: Operation, message: &str) -> Option<&str> {
        let rest = message.strip_prefix("No ")?.strip_prefix(operation.sought())?;
        rest.strip_prefix(" found for ")?.strip_suffix('.')
    }
}

/// What the caller sent as `profileUrl`. The error message repeats it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Submitted<'a> {
    /// A string, as sent.
    Text(Cow<'a, str>),
    /// Any other JSON value, as sent. The message leaves out white space between its parts.
    Json(&'a str),
    /// No body, no field, or JSON that could not be read.
    Nothing,
}

impl Submitted<'_> {
    /// The message for a refused `profileUrl`.
    pub fn refused(&self, operation: Operation) -> String {
        let shown = match self {
            Self::Text(text) => Cow::Borrowed(text.as_ref()),
            Self::Json(text) => Cow::Owned(compact(text)),
            Self::Nothing => Cow::Borrowed("(none)"),
        };
        let (shown, ellipsis) = match shown.char_indices().nth(MAX_REPEATED_CHARS) {
            Some((end, _)) => (&shown[..end], "…"),
            None => (shown.as_ref(), ""),
        };
        format!("Invalid profileUrl: {shown}{ellipsis} on {} api call.", operation.path())
    }
}

/// JSON text without the white space between its parts.
fn compact(json: &str) -> String {
    let mut in_string = false;
    let mut escaped = false;
    json.chars()
        .filter(|&c| {
            if in_string {
                in_string = c != '"' || escaped;
                escaped = c == '\\' && !escaped;
                true
            } else {
                in_string = c == '"';
                !c.is_ascii_whitespace()
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_that_is_not_on_file_can_be_read_from_the_message() {
        let url = "https://linkedin.com/in/ada-quell";
        for operation in Operation::ALL {
            let message = ErrorCode::not_on_file(operation, url);
            assert_eq!(ErrorCode::url_not_on_file(operation, &message), Some(url));
            assert_eq!(ErrorCode::url_not_on_file(operation, ErrorCode::NotFound.message()), None);
        }
    }

    #[test]
    fn a_long_value_is_cut_and_says_so() {
        let long = "é".repeat(MAX_REPEATED_CHARS + 1);
        let message = Submitted::Text(long.into()).refused(Operation::FetchPhoneNumber);
        let kept = "é".repeat(MAX_REPEATED_CHARS);
        assert_eq!(message, format!("Invalid profileUrl: {kept}… on /api/fetchPhoneNumber api call."));
    }

    #[test]
    fn a_value_that_is_not_a_string_is_repeated_compact() {
        let value = Submitted::Json("{ \"a b\" : [ 1e+308 , \"x \\\" y\" ] }");
        assert_eq!(
            value.refused(Operation::FetchPersonalEmail),
            "Invalid profileUrl: {\"a b\":[1e+308,\"x \\\" y\"]} on /api/fetchPersonalEmail api call."
        );
    }
}
