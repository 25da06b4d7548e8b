//! Correcting and removing single details.

use axum::http::StatusCode;
use axum::response::Response;
use contactd_core::store::DetailFilter;
use contactd_core::{ContactValue, Kind, Label, Profile, RawRecord, SubjectNameError, Timestamp};
use contactd_services::{CorrectionError, WrongDetail, defaults};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::api::Api;
use crate::api::auth::Call;
use crate::api::extract::Sent;
use crate::api::jobs::{self, Job};
use crate::api::people::Settled;
use crate::api::refusal::Refusal;

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Correction {
    profile_url: String,
    kind: Kind,
    /// The right number, with `+` and country code, or address.
    value: String,
    /// `personal` unless it is given.
    #[serde(default)]
    label: Label,
    /// The wrong number or address, which is removed once the right one is stored.
    #[serde(default)]
    replaces: Option<Replaced>,
    /// The case it is done for.
    #[serde(default)]
    ticket: Option<String>,
}

/// What a correction takes the place of.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Replaced {
    /// The wrong number or address, as the search shows it.
    value: String,
    /// Its source, as the search shows it.
    source: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Removal {
    profile_url: String,
    kind: Kind,
    /// The number or address to remove.
    value: String,
    /// Only what this source has given; all sources unless it is given.
    #[serde(default)]
    source: Option<String>,
    /// The case it is done for.
    #[serde(default)]
    ticket: Option<String>,
}

pub(super) async fn correct(call: Call, Sent(sent): Sent<Correction>) -> Result<Response, Refusal> {
    let profile = person(&call.api, &sent.profile_url)?;
    let wrong = sent.replaces.as_ref().map(|wrong| {
        let value = value(sent.kind, &wrong.value)?;
        Ok::<_, Refusal>(WrongDetail { kind: sent.kind, value, source: wrong.source.clone() })
    });
    let wrong = wrong.transpose()?;
    let (actor, input) = (call.who.actor_for(sent.ticket.as_deref()), json!({ "ticket": sent.ticket }));
    call.answer_or_job(jobs::Kind::Correct, input, async move |Call { api, .. }: &Call, job: &Job| {
        let now = Timestamp::from_seconds(api.clock.now().seconds()).to_string();
        let (phone, email) = match sent.kind {
            Kind::Phone => (sent.value.as_str(), ""),
            Kind::Email => ("", sent.value.as_str()),
        };
        let label = sent.label.name();
        let row = RawRecord {
            profile_url: profile.as_str(),
            phone,
            email,
            phone_label: label,
            email_label: label,
            confidence: &defaults::CONFIDENCE_BY_HAND.to_string(),
            observed_at: &now,
            source: defaults::SOURCE_BY_HAND,
            ..RawRecord::default()
        };
        let (subjects, observe) = (&api.services.subjects, |step| job.observe(step));
        match &wrong {
            Some(wrong) => {
                let replaced = subjects.replace(&actor, &row, wrong, &observe).await?;
                Ok(Settled::of(&replaced, replaced.done))
            }
            None => {
                let put = subjects.correct(&actor, &row, &observe).await?;
                Ok(Settled::of(&put, put.done.new + put.done.changed))
            }
        }
    })
    .await
}

pub(super) async fn remove(call: Call, Sent(sent): Sent<Removal>) -> Result<Response, Refusal> {
    let value = value(sent.kind, &sent.value)?;
    let profile = person(&call.api, &sent.profile_url)?;
    let (actor, input) = (call.who.actor_for(sent.ticket.as_deref()), json!({ "ticket": sent.ticket }));
    let which = DetailFilter { values: Some(vec![(sent.kind, value)]), source: sent.source };
    call.answer_or_job(jobs::Kind::Remove, input, async move |Call { api, .. }: &Call, job: &Job| {
        let removed =
            api.services.subjects.remove(&actor, &profile, &which, &|step| job.observe(step)).await?;
        Ok(Settled::of(&removed, removed.done))
    })
    .await
}

/// A number or an address that is named.
fn value(kind: Kind, text: &str) -> Result<ContactValue, Refusal> {
    let value = match kind {
        Kind::Phone => ContactValue::known_phone(text).map_err(SubjectNameError::Phone),
        Kind::Email => ContactValue::email(text).map_err(SubjectNameError::Email),
    };
    value.map_err(|error| Refusal::invalid(error.advice()))
}

fn person(api: &Api, url: &str) -> Result<Profile, Refusal> {
    api.networks.canonicalize(url).map_err(|reason| {
        Refusal::invalid(format!(
            "`profileUrl` cannot be used ({}). Send the URL of the profile as the search shows it.",
            reason.code()
        ))
    })
}

impl From<CorrectionError> for Refusal {
    fn from(error: CorrectionError) -> Self {
        match error {
            CorrectionError::Record(error) => {
                let (reason, advice) = (error.reason, error.advice());
                Self::invalid(format!("The value cannot be stored ({reason}): {advice}."))
            }
            CorrectionError::OptedOut => Self::conflict(
                "This person, number or address is opted out, so it is not stored. If they have asked for that, take the opt-out back first.",
            ),
            CorrectionError::TooMany => Self::conflict(
                "By hand, as many details as possible are stored for this profile already. Remove those that are wrong first.",
            ),
            CorrectionError::NotReplaced(error) => {
                tracing::error!(target: "contactd::admin", %error, "a correction is not complete");
                let message = "The right value is stored. The wrong one is not removed yet: remove it.";
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "not_complete", message)
            }
            CorrectionError::Store(error) => error.into(),
            CorrectionError::Suppressions(error) => error.into(),
        }
    }
}
