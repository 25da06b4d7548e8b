//! Why a call of the API is refused.

use std::io;

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse;
use contactd_core::store::StoreError;
use contactd_core::{NotRecorded, RefreshError};

use crate::api::disk::is_full;

/// An answer that is an error: `{"status": code, "message": sentence}`, as on the public listener.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    status: StatusCode,
    code: &'static str,
    message: String,
    /// How many profiles it is about, if that has to be confirmed.
    count: Option<u64>,
    retry_after: Option<u64>,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), count: None, retry_after: None }
    }

    /// The request cannot be understood, or asks for something that cannot be done.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request", message)
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    pub(crate) fn conflict(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "conflict", message)
    }

    /// Nobody is logged in.
    pub(crate) fn unauthorized() -> Self {
        let message = "Log in, or send an admin token: Authorization: Bearer cta_….";
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", message)
    }

    /// Nobody can log in.
    pub(crate) fn no_user() -> Self {
        let message = "There is no user yet. To make the first, run this on the server: contactd user create NAME --role admin";
        Self::new(StatusCode::UNAUTHORIZED, "no_user", message)
    }

    pub(crate) fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", message)
    }

    /// More people than a few are affected, and nobody said that this is meant.
    pub(crate) fn confirmation_needed(count: u64, message: impl Into<String>) -> Self {
        Self { count: Some(count), ..Self::new(StatusCode::CONFLICT, "confirmation_needed", message) }
    }

    pub(crate) fn too_many_attempts(seconds: u64) -> Self {
        let message = "There were too many attempts to log in.";
        Self {
            retry_after: Some(seconds),
            ..Self::new(StatusCode::TOO_MANY_REQUESTS, "too_many_attempts", message)
        }
    }

    /// The disk has no room.
    pub(crate) fn disk_full(what: &str) -> Self {
        let message = format!(
            "There is not enough room for {what} on the disk of the server. Ask the operator to make room."
        );
        Self::new(StatusCode::INSUFFICIENT_STORAGE, "insufficient_storage", message)
    }

    /// A file cannot be written. The log says why, unless the disk has no room.
    pub(crate) fn unwritable(error: &io::Error, what: &'static str) -> Self {
        if is_full(error) {
            return Self::disk_full(what);
        }
        tracing::error!(target: "contactd::admin", %error, what, "a file cannot be written");
        Self::internal()
    }

    /// A fault of our own. The log says which.
    pub(crate) fn internal() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "Internal server error. The log says more.")
    }

    /// The code and the message, for a job.
    pub(crate) fn into_parts(self) -> (&'static str, String) {
        (self.code, self.message)
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self {
            retry_after: Some(1),
            ..Self::new(StatusCode::SERVICE_UNAVAILABLE, "service_unavailable", message)
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response<Body> {
        let mut body = serde_json::json!({ "status": self.code, "message": self.message });
        if let Some(count) = self.count {
            body["count"] = count.into();
        }
        let mut response = crate::answer::of_type(self.status, "application/json", body.to_string());
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Busy => {
                Self::unavailable("Another command is writing to the store. Try again in a moment.")
            }
            StoreError::Unavailable(_) => {
                Self::unavailable("The store cannot be used now. Try again in a moment.")
            }
            StoreError::OutcomeUnknown(_) => Self::unavailable(
                "The store stopped answering while it stored the change. It was made once or not at all: look, or do it again, which is safe.",
            ),
            StoreError::Tampered(_) => {
                tracing::error!(target: "contactd::admin", %error, "nobody can log in");
                Self::unavailable(
                    "The users and admin tokens in the database are not those that contactd stored, so nobody can log in. Ask the operator to run contactd node reconcile.",
                )
            }
            StoreError::Engine(_)
            | StoreError::Damaged(_)
            | StoreError::SchemaTooNew { .. }
            | StoreError::NotNoted
            | StoreError::Pending(_) => {
                tracing::error!(target: "contactd::admin", %error, "a call of the admin API failed");
                Self::internal()
            }
        }
    }
}

impl From<NotRecorded> for Refusal {
    fn from(error: NotRecorded) -> Self {
        let message = match error {
            NotRecorded::Off => {
                "The journal is off, so this cannot be put on record, and it was not done. Ask the operator to switch the journal on."
            }
            NotRecorded::Unavailable(_) => {
                "This cannot be put on record now, because the journal cannot be written, so nothing personal is shown. Opt-outs work. Ask the operator to look at the log of the server."
            }
        };
        tracing::warn!(target: "contactd::admin", %error, "a view was refused, because it cannot be put on record");
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "not_on_record", message)
    }
}

impl From<RefreshError> for Refusal {
    fn from(error: RefreshError) -> Self {
        match error {
            RefreshError::Store(error) => error.into(),
            RefreshError::Key(error) => {
                tracing::error!(target: "contactd::admin", %error, "a call of the admin API failed");
                Self::internal()
            }
        }
    }
}

/// A message that begins with a capital and ends with a full stop.
pub(crate) fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    stopped(&format!("{first}{}", letters.as_str()))
}

/// A message that ends with a full stop, or with the question mark that it has.
pub(crate) fn stopped(text: &str) -> String {
    let text = text.trim_end_matches('.');
    if text.ends_with(['?', '!']) { text.to_owned() } else { format!("{text}.") }
}
