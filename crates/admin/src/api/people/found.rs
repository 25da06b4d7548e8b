//! What is held about somebody and who received it, as the API shows it.

use contactd_core::{Kind, SubjectName, Timestamp};
use contactd_services::{
    AccessReport, Disclosure, DisclosuresOf, Found, HeldDetail, ReceivedBy, ReceivedDetail, SharedValue,
    SuppressionState,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::api::names::{KindName, LabelName};

/// What a search found. It is for the eyes of whoever answers the person, not for the person.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct FoundShown {
    #[serde(flatten)]
    about: About,
    /// Other profiles that have a number or an address in common with these.
    shared: Vec<SharedShown>,
    /// Whether so many profiles hold it that only what the first of them hold is shown. `profiles` has all of them.
    is_shortened: bool,
}

/// The access report. If several people have the number or address, it is about this value only.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ReportShown {
    #[serde(flatten)]
    about: About,
    #[schemars(with = "String")]
    generated_at: Timestamp,
    is_about_the_value_only: bool,
    /// Which disclosures these are.
    disclosures_are_of: DisclosuresName,
    /// Oldest first.
    disclosures: Vec<DisclosureShown>,
}

/// Which disclosures a report has: everything of the `profile`; of the `profilesThatHoldItNow`; of the `value`, which no profile
/// holds now; or `unknown`, because no profile holds the value and older records name profiles only.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
enum DisclosuresName {
    Profile,
    ProfilesThatHoldItNow,
    Value,
    Unknown,
}

impl From<DisclosuresOf> for DisclosuresName {
    fn from(of: DisclosuresOf) -> Self {
        match of {
            DisclosuresOf::Profile => Self::Profile,
            DisclosuresOf::ProfilesThatHoldItNow => Self::ProfilesThatHoldItNow,
            DisclosuresOf::Value => Self::Value,
            DisclosuresOf::Unknown => Self::Unknown,
        }
    }
}

/// What is held, and who received it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct About {
    subject: SubjectShown,
    suppression: SuppressionShown,
    /// The profiles that it covers.
    profiles: Vec<String>,
    held: Vec<HeldShown>,
    /// Whoever received something last comes first.
    recipients: Vec<RecipientShown>,
    /// Requests about the person that got no details.
    requests_without_result: u64,
    /// The records of recipients begin here.
    #[schemars(with = "Option<String>")]
    disclosures_known_since: Option<Timestamp>,
    /// When the list of recipients was last compared with the journal.
    #[schemars(with = "Option<String>")]
    index_compared_at: Option<Timestamp>,
}

/// Whom it is about.
#[derive(Serialize, JsonSchema)]
struct SubjectShown {
    kind: SubjectKind,
    /// The canonical form. As `q`, it means the same subject.
    text: String,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum SubjectKind {
    Profile,
    Phone,
    Email,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct SuppressionShown {
    is_suppressed: bool,
    #[schemars(with = "Option<String>")]
    since: Option<Timestamp>,
    /// Whether this is about the number or address, and not about a person.
    is_of_the_value_only: bool,
}

/// One detail.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct HeldShown {
    profile_url: String,
    kind: KindName,
    value: String,
    label: LabelName,
    source: String,
    confidence: u8,
    #[schemars(with = "Option<String>")]
    observed_at: Option<Timestamp>,
    basis: Option<String>,
    #[schemars(with = "Option<String>")]
    expires_at: Option<Timestamp>,
    is_expired: bool,
    is_suppressed: bool,
    /// If it is kept only so that an import can be undone: until when. Nobody receives it.
    #[schemars(with = "Option<String>")]
    kept_for_undo_until: Option<Timestamp>,
}

/// What one recipient received.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct RecipientShown {
    /// The name of the token. Tokens of the same name are one recipient.
    token: String,
    token_ids: Vec<String>,
    times: u64,
    #[schemars(with = "String")]
    first_at: Timestamp,
    #[schemars(with = "String")]
    last_at: Timestamp,
    details: Vec<ReceivedShown>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ReceivedShown {
    operation: KindName,
    /// `null` if it is no longer held, or the journal does not say which it was.
    value: Option<String>,
    is_value_recorded: bool,
    times: u64,
    #[schemars(with = "String")]
    first_at: Timestamp,
    #[schemars(with = "String")]
    last_at: Timestamp,
}

/// One disclosure.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct DisclosureShown {
    #[schemars(with = "String")]
    time: Timestamp,
    /// Empty if another profile held the value then.
    profile_url: String,
    operation: KindName,
    token: String,
    token_id: String,
    request_id: String,
    value: Option<String>,
    is_value_recorded: bool,
}

/// A profile that has a number or an address in common with others.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct SharedShown {
    profile_url: String,
    /// What they have in common.
    kind: KindName,
}

impl FoundShown {
    pub(super) fn new(named: &SubjectName, found: Found) -> Self {
        Self {
            about: About::new(named, found.report).0,
            shared: found.shared.into_iter().map(SharedShown::from).collect(),
            is_shortened: found.is_shortened,
        }
    }
}

impl ReportShown {
    pub(super) fn new(named: &SubjectName, report: AccessReport) -> Self {
        let (generated_at, is_about_the_value_only) = (report.generated_at, report.is_about_the_value_only);
        let disclosures_are_of = report.disclosures_are_of.into();
        let (about, disclosures) = About::new(named, report);
        let disclosures = disclosures.into_iter().map(DisclosureShown::from).collect();
        Self { about, generated_at, is_about_the_value_only, disclosures_are_of, disclosures }
    }
}

impl About {
    fn new(named: &SubjectName, report: AccessReport) -> (Self, Vec<Disclosure>) {
        let kind = match named {
            SubjectName::Person(_) => SubjectKind::Profile,
            SubjectName::Value(Kind::Phone, _) => SubjectKind::Phone,
            SubjectName::Value(Kind::Email, _) => SubjectKind::Email,
        };
        let about = Self {
            subject: SubjectShown { kind, text: report.subject },
            suppression: report.suppression.into(),
            profiles: report.profiles,
            held: report.held.into_iter().map(HeldShown::from).collect(),
            recipients: report.recipients.into_iter().map(RecipientShown::from).collect(),
            requests_without_result: report.requests_without_result,
            disclosures_known_since: report.disclosures_known_since,
            index_compared_at: report.index_compared_at,
        };
        (about, report.disclosures)
    }
}

impl From<SuppressionState> for SuppressionShown {
    fn from(state: SuppressionState) -> Self {
        let SuppressionState { is_suppressed, since, is_of_the_value_only } = state;
        Self { is_suppressed, since, is_of_the_value_only }
    }
}

impl From<HeldDetail> for HeldShown {
    fn from(held: HeldDetail) -> Self {
        Self {
            profile_url: held.profile_url,
            kind: held.kind.into(),
            value: held.value,
            label: held.label.into(),
            source: held.source,
            confidence: held.confidence,
            observed_at: held.observed_at,
            basis: held.basis,
            expires_at: held.expires_at,
            is_expired: held.is_expired,
            is_suppressed: held.is_suppressed,
            kept_for_undo_until: held.kept_for_undo_until,
        }
    }
}

impl From<ReceivedBy> for RecipientShown {
    fn from(by: ReceivedBy) -> Self {
        let ReceivedBy { token, token_ids, times, first_at, last_at, details } = by;
        let details = details.into_iter().map(ReceivedShown::from).collect();
        Self { token, token_ids, times, first_at, last_at, details }
    }
}

impl From<ReceivedDetail> for ReceivedShown {
    fn from(detail: ReceivedDetail) -> Self {
        let ReceivedDetail { operation, value, is_value_recorded, times, first_at, last_at } = detail;
        Self { operation: operation.into(), value, is_value_recorded, times, first_at, last_at }
    }
}

impl From<Disclosure> for DisclosureShown {
    fn from(given: Disclosure) -> Self {
        Self {
            time: given.time,
            profile_url: given.profile_url,
            operation: given.operation.into(),
            token: given.token,
            token_id: given.token_id,
            request_id: given.request_id,
            value: given.value,
            is_value_recorded: given.is_value_recorded,
        }
    }
}

impl From<SharedValue> for SharedShown {
    fn from(shared: SharedValue) -> Self {
        Self { profile_url: shared.profile.as_str().to_owned(), kind: shared.kind.into() }
    }
}
