//! Erasing a person.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use contactd_services::Changed;
use contactd_services::views::ErasedView;
use contactd_services::{EraseError, EraseOptions, Erased};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::api::auth::Call;
use crate::api::extract::{Json, Sent};
use crate::api::jobs::{Job, Kind};
use crate::api::people::{Whom, search_turn, seen};
use crate::api::refusal::Refusal;

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Erasure {
    q: Whom,
    /// Also opt out the numbers and addresses of the person, so that they are given out under no other profile.
    #[serde(default)]
    values: bool,
    /// Change nothing, and say whom it would erase.
    #[serde(default)]
    dry_run: bool,
    /// How many profiles you have seen that hold the number or address. If it is another number by now, none is erased. Needed
    /// for more than 10.
    #[serde(default)]
    confirmed: Option<u32>,
    /// The case it is done for.
    #[serde(default)]
    ticket: Option<String>,
}

/// What was erased, or would be. If it is not on record yet, nobody is named.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ErasureShown {
    #[serde(flatten)]
    erased: ErasedView,
    /// Whether it is certain that every lookup from now on sees the change.
    in_force: bool,
    /// Whether the journal says so already. If not, the line follows by itself.
    is_on_record: bool,
}

impl ErasureShown {
    fn of(erased: Erased) -> Self {
        Self { erased: erased.into(), in_force: true, is_on_record: true }
    }

    fn done(changed: Changed<Erased>) -> Self {
        let (in_force, is_on_record) = (changed.confirmed.is_ok(), changed.recorded.is_ok());
        let erased = if changed.may_show() { changed.done } else { Erased::default() };
        Self { erased: erased.into(), in_force, is_on_record }
    }
}

pub(super) async fn erase(call: Call, Sent(sent): Sent<Erasure>) -> Result<Response, Refusal> {
    let (named, actor) = (sent.q.read(&call.api)?, call.who.actor_for(sent.ticket.as_deref()));
    if sent.dry_run {
        let _turn = search_turn().await?;
        let erased = call.api.services.subjects.preview_erasure(&actor, &named).await?;
        return Ok(Json(ErasureShown::of(erased)).into_response());
    }
    let options = EraseOptions { values: sent.values, must_exist: false, approval: seen(sent.confirmed) };
    let input = json!({ "values": sent.values, "ticket": sent.ticket });
    call.answer_or_job(Kind::Erase, input, async move |Call { api, .. }: &Call, job: &Job| {
        let subjects = &api.services.subjects;
        let erased = subjects.erase(&actor, &named, options, &|step| job.observe(step)).await;
        if erased.as_ref().err().is_none_or(EraseError::has_begun) {
            api.delete_personal_files();
        }
        let mut erased = erased?;
        match erased.done.left.take() {
            Some(left) => Err(left.into()),
            None => Ok(ErasureShown::done(erased)),
        }
    })
    .await
}

impl From<EraseError> for Refusal {
    fn from(error: EraseError) -> Self {
        match error {
            EraseError::NotOnFile => Self::not_found("Nothing is on file about this. Nothing was changed."),
            EraseError::NeedsApproval(count) => Self::confirmation_needed(
                count as u64,
                format!(
                    "{count} profiles hold this number or address, and none of them was erased. It is opted out itself: no lookup gives \
                     it out. To erase all of them, confirm their number."
                ),
            ),
            EraseError::NotAsConfirmed(count) => Self::conflict(format!(
                "{count} profiles hold this number or address now, which is not the number you have seen. None of them was erased. It is \
                 opted out itself: no lookup gives it out. Look at them again."
            )),
            EraseError::NotRecorded(error) => error.into(),
            EraseError::NotSuppressed(error) => error.into(),
            EraseError::Pending(nodes) => Self::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "not_complete",
                format!(
                    "The details are removed and nobody receives them. These servers are away, and still have traces of them in their \
                     files: {}. They remove these before they answer lookups again, so you need not erase again. If one is gone for \
                     good, ask the operator to delete its files and to forget it.",
                    nodes.join(", ")
                ),
            ),
            error => {
                tracing::error!(target: "contactd::admin", %error, "an erasure is not complete");
                let message = match error {
                    EraseError::NotConfirmed(..) => {
                        "The erasure is not complete, and it is not certain that the opt-out is in force. Erase again."
                    }
                    EraseError::NotSearched(_) => {
                        "The person is erased. Whether other profiles have the same numbers and addresses could not be found out."
                    }
                    EraseError::BackingUp => {
                        "The details are removed and nobody receives them. A backup that is being made still holds them: erase again when it is done."
                    }
                    EraseError::NotRemoved(_) => {
                        "The opt-out is in force: nobody receives the details. They are not removed yet. Erase again."
                    }
                    _ => {
                        "The details are removed and nobody receives them. Traces of them are left in the files of the service. Erase again in a moment."
                    }
                };
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "not_complete", message)
            }
        }
    }
}
