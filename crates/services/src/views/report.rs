//! The access report: everything about a person, and who received it when.

use contactd_core::{Kind, Label, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;

/// Everything about a person. It contains personal data in clear, because it is meant for that person.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AccessReport {
    /// When it was created, to the second.
    pub generated_at: Timestamp,
    /// What was asked about: a profile URL, a number or an address.
    pub subject: String,
    /// Whether they have opted out.
    pub suppression: SuppressionState,
    /// The profiles that it covers.
    pub profiles: Vec<String>,
    /// What is held.
    pub held: Vec<HeldDetail>,
    /// Who received something, in short: whoever received it last comes first.
    pub recipients: Vec<ReceivedBy>,
    /// What was disclosed, oldest first.
    pub disclosures: Vec<Disclosure>,
    /// Requests about the person that disclosed nothing.
    pub requests_without_result: u64,
    /// Whether the report covers only the value, because several people have it.
    pub is_about_the_value_only: bool,
    /// Which disclosures these are.
    pub disclosures_are_of: DisclosuresOf,
    /// Disclosures before this time are no longer recorded.
    pub disclosures_known_since: Option<Timestamp>,
    /// When the index, from which the disclosures were read, was last compared with the journal; `None` if it never was,
    /// or if they were read from the journal.
    pub index_compared_at: Option<Timestamp>,
    /// Whether the disclosures were read from the journal itself.
    pub is_from_journal: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SuppressionShown")]
pub struct SuppressionState {
    pub is_suppressed: bool,
    pub since: Option<Timestamp>,
    /// Whether this is about the number or address, and not about a person.
    pub is_of_the_value_only: bool,
}

/// One detail.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "HeldShown")]
pub struct HeldDetail {
    pub profile_url: String,
    pub kind: Kind,
    pub value: String,
    pub label: Label,
    pub source: String,
    pub confidence: u8,
    pub observed_at: Option<Timestamp>,
    pub basis: Option<String>,
    pub expires_at: Option<Timestamp>,
    pub is_expired: bool,
    pub is_suppressed: bool,
    /// If it is kept only so that an import can be undone: until when. Nobody receives it.
    pub kept_for_undo_until: Option<Timestamp>,
}

/// What one recipient received.
#[derive(Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "RecipientShown")]
pub struct ReceivedBy {
    /// The name of the token. Tokens of the same name are one recipient.
    pub token: String,
    pub token_ids: Vec<String>,
    pub times: u64,
    pub first_at: Timestamp,
    pub last_at: Timestamp,
    pub details: Vec<ReceivedDetail>,
}

#[derive(Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ReceivedShown")]
pub struct ReceivedDetail {
    pub operation: Kind,
    /// `null` if it is no longer held, or the journal does not say which it was.
    pub value: Option<String>,
    pub is_value_recorded: bool,
    pub times: u64,
    pub first_at: Timestamp,
    pub last_at: Timestamp,
}

/// One disclosure.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "DisclosureShown")]
pub struct Disclosure {
    pub time: Timestamp,
    /// Empty if another profile held the value then.
    pub profile_url: String,
    pub operation: Kind,
    pub token: String,
    pub token_id: String,
    pub request_id: String,
    pub value: Option<String>,
    pub is_value_recorded: bool,
}

/// Which disclosures a report has: everything of the `profile`; of the `profilesThatHoldItNow`; of the `value`, which no profile
/// holds now; or `unknown`, because no profile holds the value and older records name profiles only.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "DisclosuresName")]
pub enum DisclosuresOf {
    Profile,
    ProfilesThatHoldItNow,
    Value,
    Unknown,
}
