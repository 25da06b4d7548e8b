//! Request and answers, field by field.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::Serialize;

/// What both operations take. Unknown fields are ignored.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LookupRequest {
    /// URL of the person's profile on the professional network.
    #[schemars(example = "https://www.linkedin.com/in/ada-quell-1a2b3c")]
    pub profile_url: String,
}

/// A phone number was found.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PhoneFound<'a> {
    /// Phone number of the requested profile in international form: "+" and digits only.
    #[schemars(regex(pattern = r"^\+[1-9][0-9]{6,14}$"), example = "+14155550123")]
    pub phone_number: Cow<'a, str>,
    /// The requested profile URL in its canonical form.
    #[schemars(example = "https://linkedin.com/in/ada-quell-1a2b3c")]
    pub profile_url: Cow<'a, str>,
}

/// A personal e-mail address was found.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EmailFound<'a> {
    /// Personal e-mail address of the requested profile.
    #[schemars(example = "ada@example.com")]
    pub email: Cow<'a, str>,
    /// The requested profile URL in its canonical form.
    #[schemars(example = "https://linkedin.com/in/ada-quell-1a2b3c")]
    pub profile_url: Cow<'a, str>,
}

/// Every answer that is not a success, but for a fault of the service.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Error<'a> {
    /// Machine-readable error code.
    #[schemars(extend("enum" = crate::ErrorCode::statuses()))]
    pub status: Cow<'a, str>,
    /// Human-readable text.
    pub message: Cow<'a, str>,
}

/// A fault of the service. It has no `status`, and says nothing about the cause.
#[derive(Debug, Serialize, JsonSchema)]
pub struct InternalError<'a> {
    /// Human-readable text.
    pub message: Cow<'a, str>,
}
