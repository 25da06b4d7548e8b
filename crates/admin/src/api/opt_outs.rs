//! Opting out, and taking that back. It works also while the journal cannot be written.

mod list;

use axum::http::StatusCode;
use contactd_core::RefreshError;
use contactd_services::views::HolderView;
use contactd_services::{Changed, OnFile, OptOutError, OptOutOptions, OptOutOutcome, OptedOut};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::auth::Call;
use crate::api::endpoint::Endpoint;
use crate::api::extract::{Answer, Json, Sent};
use crate::api::people::{Settled, Whom, seen};
use crate::api::permission::{Needs, Permission};
use crate::api::refusal::Refusal;

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let needs = Needs::May(Permission::OptOuts);
    vec![
        Endpoint::post("/people/opt-out", needs, "optOut").does("Opt out a person, or a number or an address and, if wanted, the people who have it. It works also while the journal cannot be written.", opt_out),
        Endpoint::post("/opt-outs/withdraw", needs, "withdrawOptOut").does("Take an opt-out back.", withdraw),
        Endpoint::post("/opt-outs/list", needs, "optOutList").does("Opt out a list and, if wanted, the people who have its numbers and addresses. One profile URL, e-mail address or phone number on each line, or the columns of a CSV, a workbook or any other file that an import reads. A job does it.", list::opt_out_list),
        Endpoint::post("/opt-outs/list/check", needs, "checkOptOutList").does("How many people, numbers and addresses a list names, and which of its lines cannot be read. Changes nothing.", list::check_list),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct OptOutAsked {
    q: Whom,
    /// Also opt out the people whose profiles hold the number or address. A person who is named by their profile is opted out in
    /// any case.
    #[serde(default)]
    person: bool,
    /// How many profiles hold it. Needed to opt out more than 10 people.
    #[serde(default)]
    confirmed: Option<u32>,
    /// The case it is done for.
    #[serde(default)]
    ticket: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Withdrawal {
    q: Whom,
    /// The case it is done for.
    #[serde(default)]
    ticket: Option<String>,
}

/// What was opted out. If it is not on record yet, nothing is said about what is on file.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct OptOutShown {
    #[serde(flatten)]
    settled: Settled,
    /// How many were opted out already.
    already: u64,
    /// Whether anything is on file under this; `null` if it is not known, or must not be shown.
    on_file: Option<bool>,
    /// The profiles that hold the number or address.
    holders: Vec<HolderView>,
}

impl OptOutShown {
    fn of(changed: &Changed<OptedOut>, on_file: Option<&OnFile>) -> Self {
        Self {
            settled: Settled::of(changed, changed.done.changed),
            already: changed.done.already,
            on_file: on_file.map(|found| found.unknown.is_empty()),
            holders: on_file.map(|found| found.holders.clone()).unwrap_or_default(),
        }
    }
}

async fn opt_out(Call { api, who }: Call, Sent(sent): Sent<OptOutAsked>) -> Answer<OptOutShown> {
    let (named, actor) = (sent.q.read(&api)?, who.actor_for(sent.ticket.as_deref()));
    let options = OptOutOptions { person: sent.person, must_exist: false, approval: seen(sent.confirmed) };
    let changed = api.services.opt_outs.suppress(&actor, &[named], options).await?;
    match changed.outcome() {
        OptOutOutcome::Done(on_file) => Ok(Json(OptOutShown::of(&changed, on_file))),
        OptOutOutcome::NeedsApproval(count) => Err(not_confirmed(count)),
        OptOutOutcome::NeedsApprovalUnseen => Err(unseen()),
        OptOutOutcome::HoldersUnknown(error) => Err(holders_unknown(error)),
        OptOutOutcome::Uncertain => Err(uncertain()),
    }
}

fn holders_unknown(error: &RefreshError) -> Refusal {
    tracing::error!(target: "contactd::admin", %error, "who has what was opted out could not be found");
    let message = "What was named is opted out. Who has these numbers and addresses could not be found out, so these people are \
                   not opted out themselves. Do it again.";
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "not_complete", message)
}

fn uncertain() -> Refusal {
    let message = "The opt-out is stored, but it is not certain that it is in force everywhere, and the people who have these numbers \
                   and addresses are not all opted out themselves. Do it again.";
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "not_complete", message)
}

/// How many there are is not told while that cannot be put on record.
fn unseen() -> Refusal {
    let message = "More than ten profiles hold this number or address. It is opted out itself; these people are not yet. How many they are \
                   cannot be shown, because it cannot be put on record. Ask the operator to look at the log of the server.";
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "not_on_record", message)
}

fn not_confirmed(count: usize) -> Refusal {
    let message = format!(
        "{count} profiles hold this number or address. It is opted out itself; these people are not yet. To opt out all of them, \
         confirm their number."
    );
    Refusal::confirmation_needed(count as u64, message)
}

async fn withdraw(Call { api, who }: Call, Sent(sent): Sent<Withdrawal>) -> Answer<Settled> {
    let (named, actor) = (sent.q.read(&api)?, who.actor_for(sent.ticket.as_deref()));
    let changed = api.services.opt_outs.unsuppress(&actor, &[named]).await?;
    Ok(Json(Settled::of(&changed, changed.done.changed)))
}

impl From<OptOutError> for Refusal {
    fn from(error: OptOutError) -> Self {
        match error {
            OptOutError::NotOnFile(_) => {
                Self::not_found("Nothing is on file about this. Nothing was changed.")
            }
            OptOutError::Store(error) => error.into(),
        }
    }
}
