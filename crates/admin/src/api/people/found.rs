//! What is held about somebody and who received it, as the API shows it.

use contactd_core::{Kind, SubjectName, Timestamp};
use contactd_services::Found;
use contactd_services::views::{
    AccessReport, Disclosure, DisclosuresOf, HeldDetail, ReceivedBy, SharedView, SuppressionState,
};
use schemars::JsonSchema;
use serde::Serialize;

/// What a search found. It is for the eyes of whoever answers the person, not for the person.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct FoundShown {
    #[serde(flatten)]
    about: About,
    /// Other profiles that have a number or an address in common with these.
    shared: Vec<SharedView>,
    /// Whether so many profiles hold it that only what the first of them hold is shown. `profiles` has all of them.
    is_shortened: bool,
}

/// The access report. If several people have the number or address, it is about this value only.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ReportShown {
    #[serde(flatten)]
    about: About,
    generated_at: Timestamp,
    is_about_the_value_only: bool,
    /// Which disclosures these are.
    disclosures_are_of: DisclosuresOf,
    /// Oldest first.
    disclosures: Vec<Disclosure>,
}

/// What is held, and who received it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct About {
    subject: SubjectShown,
    suppression: SuppressionState,
    /// The profiles that it covers.
    profiles: Vec<String>,
    held: Vec<HeldDetail>,
    /// Whoever received something last comes first.
    recipients: Vec<ReceivedBy>,
    /// Requests about the person that got no details.
    requests_without_result: u64,
    /// The records of recipients begin here.
    disclosures_known_since: Option<Timestamp>,
    /// When the list of recipients was last compared with the journal.
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

impl FoundShown {
    pub(super) fn new(named: &SubjectName, found: Found) -> Self {
        Self {
            about: About::new(named, found.report).0,
            shared: found.shared,
            is_shortened: found.is_shortened,
        }
    }
}

impl ReportShown {
    pub(super) fn new(named: &SubjectName, report: AccessReport) -> Self {
        let (generated_at, is_about_the_value_only) = (report.generated_at, report.is_about_the_value_only);
        let disclosures_are_of = report.disclosures_are_of;
        let (about, disclosures) = About::new(named, report);
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
            suppression: report.suppression,
            profiles: report.profiles,
            held: report.held,
            recipients: report.recipients,
            requests_without_result: report.requests_without_result,
            disclosures_known_since: report.disclosures_known_since,
            index_compared_at: report.index_compared_at,
        };
        (about, report.disclosures)
    }
}
