//! The access report: everything about a person, and who received it when.

use std::collections::HashMap;

use serde::Serialize;

use crate::services::audits;
use crate::services::subjects::{SubjectError, SubjectStore, Subjects};
use crate::store::AuditFilter;
use crate::{
    Actor, AuditOutcome, AuditRecord, ContactValue, Detail, Kind, Label, Profile, Subject, SubjectName,
    Timestamp,
};

/// Everything about a person. It contains personal data in clear, because it is meant for that person.
#[derive(Debug, Serialize)]
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
}

/// Whether somebody has opted out.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SuppressionState {
    /// Whether they are suppressed.
    pub is_suppressed: bool,
    /// Since when.
    pub since: Option<Timestamp>,
    /// Whether this is about the number or address that was asked about, not about a person.
    pub is_of_the_value_only: bool,
}

/// One detail, as the report shows it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the fields are those of a detail")]
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
    /// Whether it has expired: it is no longer disclosed and will be removed.
    pub is_expired: bool,
    /// Whether the person or this value has opted out.
    pub is_suppressed: bool,
}

/// One disclosure.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Disclosure {
    /// When.
    pub time: Timestamp,
    /// The profile.
    pub profile_url: String,
    /// The kind of detail that was disclosed.
    pub operation: Kind,
    /// The name of the token that received it; its id if the name is unknown.
    pub token: String,
    /// The id of that token.
    pub token_id: String,
    /// The id of the request.
    pub request_id: String,
}

/// Which disclosures a report lists. The journal knows profiles, not values: what was disclosed of a number or an
/// address while another profile held it cannot be found by the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum DisclosuresOf {
    /// Everything that was disclosed of the profile.
    Profile,
    /// What was disclosed of the profiles that hold the value now.
    ProfilesThatHoldItNow,
    /// None can be found: no profile holds the value now.
    Unknown,
}

/// The number or address that was asked about, if it was not a person.
type Asked<'a> = Option<(Kind, &'a ContactValue)>;

impl<S: SubjectStore> Subjects<S> {
    /// Everything held about a person, and who received it when. If several people have the number or address
    /// that was asked about, the report covers only that value, because the person who asked may be any of them
    /// and must not see the other people's details.
    pub async fn report(&self, actor: &Actor, named: &SubjectName) -> Result<AccessReport, SubjectError> {
        actor.note("subject");
        match named {
            SubjectName::Person(profile) => {
                self.report_of(profile.as_str().to_owned(), vec![profile.clone()], None).await
            }
            SubjectName::Value(kind, value) => {
                let profiles = self.parts.store.find_profiles(*kind, value).await?;
                self.report_of(value.expose().to_owned(), profiles, Some((*kind, value))).await
            }
        }
    }

    async fn report_of(
        &self,
        subject: String,
        profiles: Vec<Profile>,
        asked: Asked<'_>,
    ) -> Result<AccessReport, SubjectError> {
        let parts = &*self.parts;
        let now = parts.clock.now();
        let only = asked.filter(|_| profiles.len() > 1);
        let suppressions = parts.suppressions().await?;
        let names = audits::token_names(&*parts.store).await?;
        let known_since = parts.journal.begins().map_err(audits::AuditError::from)?;
        let disclosures_are_of = match (asked, profiles.as_slice()) {
            (None, _) => DisclosuresOf::Profile,
            (Some(_), []) => DisclosuresOf::Unknown,
            (Some(_), _) => DisclosuresOf::ProfilesThatHoldItNow,
        };
        let mut report = AccessReport {
            generated_at: Timestamp::from_seconds(now.seconds()),
            subject,
            suppression: self.suppression_of(&profiles, asked).await?,
            profiles: profiles.iter().map(|profile| profile.as_str().to_owned()).collect(),
            held: Vec::new(),
            disclosures: Vec::new(),
            requests_without_result: 0,
            is_about_the_value_only: only.is_some(),
            disclosures_are_of,
            disclosures_known_since: known_since.filter(|_| disclosures_are_of != DisclosuresOf::Unknown),
        };
        for profile in &profiles {
            let mut details = parts.store.list_details(profile).await?;
            details.retain(|detail| {
                only.is_none_or(|(kind, value)| {
                    detail.kind == kind && value.compares_to(kind, detail.value.expose())
                })
            });
            report.held.extend(details.into_iter().map(|detail| {
                let is_suppressed = suppressions.withholds(profile, detail.kind, &detail.value);
                held_detail(profile, is_suppressed, detail, now)
            }));
            let digests = parts.keys.profile_digests(profile).into_iter().map(|(_, digest)| digest).collect();
            let filter = AuditFilter { profiles: Some(digests), ..AuditFilter::default() };
            let visit = |record: AuditRecord| {
                if only.is_some_and(|(kind, _)| kind != record.operation) {
                    return true;
                }
                if record.outcome == AuditOutcome::Hit.name() {
                    report.disclosures.push(disclosure(profile, record, &names));
                } else {
                    report.requests_without_result += 1;
                }
                true
            };
            audits::visit(parts, &filter, visit).await?;
        }
        report.disclosures.sort_by_key(|disclosure| disclosure.time);
        Ok(report)
    }

    /// Whether the person has opted out, if the report is about one, or else the value that was asked about.
    async fn suppression_of(
        &self,
        profiles: &[Profile],
        asked: Asked<'_>,
    ) -> Result<SuppressionState, SubjectError> {
        let person = match profiles {
            [profile] => Some(Subject::Profile(profile)),
            _ => None,
        };
        let value = asked.map(|(kind, value)| Subject::Value(kind, value));
        for (subject, is_of_the_value_only) in [(person, false), (value, true)] {
            let Some(subject) = subject else { continue };
            let digests = self.parts.keys.all_digests(subject);
            if let Some(since) = self.parts.store.find_suppression(&digests).await? {
                return Ok(SuppressionState {
                    is_suppressed: true,
                    since: Some(since),
                    is_of_the_value_only,
                });
            }
        }
        Ok(SuppressionState { is_suppressed: false, since: None, is_of_the_value_only: profiles.len() != 1 })
    }
}

fn disclosure(profile: &Profile, record: AuditRecord, names: &HashMap<String, String>) -> Disclosure {
    Disclosure {
        time: record.at,
        profile_url: profile.as_str().to_owned(),
        operation: record.operation,
        token: names.get(&record.token).cloned().unwrap_or_else(|| record.token.clone()),
        token_id: record.token,
        request_id: record.request_id,
    }
}

fn held_detail(profile: &Profile, is_suppressed: bool, detail: Detail, now: Timestamp) -> HeldDetail {
    HeldDetail {
        profile_url: profile.as_str().to_owned(),
        kind: detail.kind,
        value: detail.value.expose().to_owned(),
        label: detail.label,
        source: detail.source,
        confidence: detail.confidence,
        observed_at: detail.observed_at,
        basis: detail.basis,
        is_expired: detail.expires_at.is_some_and(|at| at.seconds() <= now.seconds()),
        expires_at: detail.expires_at,
        is_suppressed,
    }
}
