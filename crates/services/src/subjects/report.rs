//! The access report: everything about a person, and who received it when.

mod recipients;

use std::collections::HashMap;

use contactd_core::store::{AuditFilter, IndexedLine, RequestFilter};
use contactd_core::{
    Actor, AuditOutcome, AuditRecord, ContactValue, Detail, DigestKeys, Kind, Profile, ShortDigest, Subject,
    SubjectName, Timestamp,
};

use crate::ReadFrom;
use crate::audits;
use crate::subjects::{SubjectError, Subjects};
use crate::views::{AccessReport, Disclosure, DisclosuresOf, HeldDetail, SharedView, SuppressionState};

/// What a search found.
pub struct Found {
    /// What is held in the profiles, and who received it. `profiles` has all of them, and everything else is about the first
    /// [`MOST_SEARCHED`].
    pub report: AccessReport,
    /// Other profiles that have a number or an address in common with these, ordered by URL.
    pub shared: Vec<SharedView>,
    /// Whether there are more profiles than [`MOST_SEARCHED`].
    pub is_shortened: bool,
}

/// How many of the profiles that hold a number or an address a search shows.
pub const MOST_SEARCHED: usize = 200;

/// For whom the profiles of a number or address are read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reader {
    /// A person who asks about themselves. If several people have the value, they see only that.
    Person,
    /// A privacy officer, who has to find out whom a request is about.
    Officer,
}

/// The number or address that was asked about, if it was not a person.
type Asked<'a> = Option<(Kind, &'a ContactValue)>;

/// A disclosure with the number of its line.
type Numbered = (u64, Disclosure);

impl Subjects {
    /// Everything held about a person, and who received it when. If several people have the number or address
    /// that was asked about, the report covers only that value, because the person who asked may be any of them
    /// and must not see the other people's details.
    pub async fn report(
        &self,
        actor: &Actor,
        named: &SubjectName,
        source: ReadFrom,
    ) -> Result<AccessReport, SubjectError> {
        let entry = self.parts.entry_about(actor, "subject", [named.subject()]);
        self.parts.record_read(&entry).await?;
        let profiles = self.profiles_about(named).await?;
        self.report_of(named, &profiles, Reader::Person, source).await
    }

    /// Everything held in all profiles that a name stands for, who received it, and which other profiles have the same numbers
    /// and addresses. It is for the eyes of a privacy officer; what the person gets is the [report](Self::report). Reads all
    /// details.
    pub async fn search(&self, actor: &Actor, named: &SubjectName) -> Result<Found, SubjectError> {
        let entry = self.parts.entry_about(actor, "subject search", [named.subject()]);
        self.parts.record_read(&entry).await?;
        let profiles = self.profiles_about(named).await?;
        let report = self.report_of(named, &profiles, Reader::Officer, ReadFrom::Index).await?;
        let held = report.held.iter().map(|held| (held.kind, ContactValue::from_store(held.value.clone())));
        let mut values: Vec<(Kind, ContactValue)> = held.collect();
        values.sort();
        values.dedup();
        let shared = self.shared(&values, profiles.iter().map(Profile::as_str)).await?;
        Ok(Found { report, shared, is_shortened: profiles.len() > MOST_SEARCHED })
    }

    /// The profiles that a name stands for: the one that is named, or those that hold the number or address.
    async fn profiles_about(&self, named: &SubjectName) -> Result<Vec<Profile>, SubjectError> {
        match named {
            SubjectName::Person(profile) => Ok(vec![profile.clone()]),
            SubjectName::Value(kind, value) => Ok(self.parts.store.find_profiles(*kind, value).await?),
        }
    }

    async fn report_of(
        &self,
        named: &SubjectName,
        profiles: &[Profile],
        reader: Reader,
        source: ReadFrom,
    ) -> Result<AccessReport, SubjectError> {
        let parts = &*self.parts;
        let now = parts.clock.now();
        let asked: Asked<'_> = match named {
            SubjectName::Person(_) => None,
            SubjectName::Value(kind, value) => Some((*kind, value)),
        };
        let only = asked.filter(|_| profiles.len() > 1 && reader == Reader::Person);
        let most = if reader == Reader::Officer { MOST_SEARCHED } else { usize::MAX };
        let suppressions = parts.suppressions().await?;
        let names = audits::token_names(&*parts.store).await?;
        let known_since = audits::known_since(parts).await?;
        let disclosures_are_of = match (asked, profiles) {
            (None, _) => DisclosuresOf::Profile,
            (Some(_), []) => DisclosuresOf::Unknown,
            (Some(_), _) => DisclosuresOf::ProfilesThatHoldItNow,
        };
        let journal = audits::Reader::ready(parts, source).await?;
        let mut report = AccessReport {
            generated_at: Timestamp::from_seconds(now.seconds()),
            subject: named.text().to_owned(),
            suppression: self.suppression_of(profiles, asked).await?,
            profiles: profiles.iter().map(|profile| profile.as_str().to_owned()).collect(),
            held: Vec::new(),
            recipients: Vec::new(),
            disclosures: Vec::new(),
            requests_without_result: 0,
            is_about_the_value_only: only.is_some(),
            disclosures_are_of,
            disclosures_known_since: known_since.filter(|_| disclosures_are_of != DisclosuresOf::Unknown),
            index_compared_at: match source {
                ReadFrom::Index => audits::compared_at(parts).await?,
                ReadFrom::Journal => None,
            },
            is_from_journal: source == ReadFrom::Journal,
        };
        let mut given: Vec<Numbered> = Vec::new();
        for profile in profiles.iter().take(most) {
            let held = parts.store.list_details(profile).await?.into_iter().map(|detail| (detail, None));
            let former = parts.store.list_former(profile).await?.into_iter().map(|former| {
                let until = former.imported_at.plus(parts.undo_for);
                (former.detail, Some(Timestamp::from_seconds(until.seconds())))
            });
            let mut details: Vec<(Detail, Option<Timestamp>)> = held.chain(former).collect();
            let values: Vec<_> =
                details.iter().map(|(detail, _)| (detail.kind, detail.value.clone())).collect();
            let known: HashMap<ShortDigest, String> = values
                .iter()
                .flat_map(|(kind, value)| {
                    let digests = parts.keys.short_digests(Subject::Value(*kind, value));
                    digests.into_iter().map(|digest| (digest, value.expose().to_owned()))
                })
                .collect();
            let asked_digests =
                only.map(|(kind, value)| parts.keys.short_digests(Subject::Value(kind, value)));
            details.retain(|(detail, _)| {
                only.is_none_or(|(kind, value)| {
                    detail.kind == kind && value.compares_to(kind, detail.value.expose())
                })
            });
            report.held.extend(details.into_iter().map(|(detail, kept_for_undo_until)| {
                let is_suppressed = suppressions.withholds(profile, detail.kind, &detail.value);
                HeldDetail { kept_for_undo_until, ..held_detail(profile, is_suppressed, detail, now) }
            }));
            let profiles = Some(parts.keys.short_digests(Subject::Profile(profile)));
            let filter = AuditFilter::of_requests(RequestFilter { profiles, ..RequestFilter::default() });
            let visit = |line: IndexedLine| {
                let Some((record, kind)) = lookup(line) else { return };
                if only.is_some_and(|(only, _)| only != kind) {
                    return;
                }
                // Another of this person's values is not what was asked about.
                if record
                    .value
                    .is_some_and(|value| asked_digests.as_ref().is_some_and(|asked| !asked.contains(&value)))
                {
                    return;
                }
                if record.outcome == AuditOutcome::Hit.name() {
                    let value = record.value.and_then(|value| known.get(&value).cloned());
                    given.push((
                        record.seq,
                        disclosure(profile.as_str().to_owned(), record, kind, value, &names),
                    ));
                } else {
                    report.requests_without_result += record.count;
                }
            };
            journal.each(&filter, visit).await?;
        }
        if let Some((kind, value)) = asked {
            given.extend(disclosures_of((kind, value), profiles, &names, &journal, &parts.keys).await?);
            if report.disclosures_are_of == DisclosuresOf::Unknown && !given.is_empty() {
                report.disclosures_are_of = DisclosuresOf::Value;
                report.disclosures_known_since = known_since;
            }
        }
        given.sort_by_key(|(seq, disclosure)| (disclosure.time, *seq));
        report.disclosures = given.into_iter().map(|(_, disclosure)| disclosure).collect();
        report.recipients = recipients::by_recipient(&report.disclosures);
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

/// What was disclosed of a value while other profiles held it.
async fn disclosures_of(
    (kind, value): (Kind, &ContactValue),
    profiles: &[Profile],
    names: &HashMap<String, String>,
    reader: &audits::Reader<'_>,
    keys: &DigestKeys,
) -> Result<Vec<Numbered>, SubjectError> {
    let listed: Vec<ShortDigest> =
        profiles.iter().flat_map(|profile| keys.short_digests(Subject::Profile(profile))).collect();
    let values = Some(keys.short_digests(Subject::Value(kind, value)));
    let outcome = Some(AuditOutcome::Hit.name().to_owned());
    let filter = AuditFilter::of_requests(RequestFilter { values, outcome, ..RequestFilter::default() });
    let mut given = Vec::new();
    let visit = |line: IndexedLine| {
        let Some((record, kind)) = lookup(line) else { return };
        let is_listed = record.profile.as_ref().is_some_and(|(_, digest)| listed.contains(digest));
        if !is_listed {
            let value = Some(value.expose().to_owned());
            given.push((record.seq, disclosure(String::new(), record, kind, value, names)));
        }
    };
    reader.each(&filter, visit).await?;
    Ok(given)
}

/// A lookup that counts: what a batch asks for again is answered once for the report, and the sandbox discloses nothing.
fn lookup(line: IndexedLine) -> Option<(AuditRecord, Kind)> {
    let IndexedLine::Request(record) = line else { return None };
    let kind = record.operation.kind().filter(|_| record.counted() > 0)?;
    Some((record, kind))
}

fn disclosure(
    profile_url: String,
    record: AuditRecord,
    operation: Kind,
    value: Option<String>,
    names: &HashMap<String, String>,
) -> Disclosure {
    Disclosure {
        is_value_recorded: record.value.is_some(),
        time: record.at,
        profile_url,
        operation,
        token: names.get(&record.token).cloned().unwrap_or_else(|| record.token.clone()),
        token_id: record.token,
        request_id: record.request_id,
        value,
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
        kept_for_undo_until: None,
    }
}
