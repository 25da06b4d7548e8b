//! The journal: its lines, who received how much, the check that nothing was changed, and proofs of it.

mod csv;
mod keys;
mod proof;
mod verify;

use axum::response::{IntoResponse, Response};
use contactd_core::store::StoreError;
use contactd_core::{AdminOutcome, AuditOutcome, Timestamp};
use contactd_services::JournalError;
use contactd_services::views::{EventView, Recipient};
use contactd_services::{AuditError, AuditQuery};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::auth::Call;
use crate::api::endpoint::Endpoint;
use crate::api::extract::{Answer, Asked, Json};
use crate::api::period::{Format, period};
use crate::api::permission::{Needs, Permission};
use crate::api::refusal::Refusal;

/// How many events a page has unless something else is asked for, and at most.
const PAGE: u64 = 50;
const LARGEST_PAGE: u64 = 1_000;

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let (read, prove) = (Needs::May(Permission::Audit), Needs::May(Permission::AuditProof));
    vec![
        Endpoint::get("/audit", read, "showAudit").does("Requests and actions in the journal, newest first: a page, or all of them as CSV.", show)
            .answers_or::<EventPage>("text/csv"),
        Endpoint::get("/audit/summary", read, "summarizeAudit").does("What each token asked for and received, the one that asked last first.", summary),
        Endpoint::get("/audit/root", prove, "listRoots").does("The public keys with which the journals of all nodes began. Note them down elsewhere.", keys::roots),
        Endpoint::get("/audit/head", prove, "listHeads").does("The last signed line of the journals of all nodes. Note it down elsewhere.", keys::heads),
        Endpoint::post("/audit/verify", prove, "verifyAudit").does("Check every line of the journals of all nodes, as a job. A journal that is not whole is a result, not a failure.", verify::start),
        Endpoint::post("/audit/proof", prove, "proveAudit").does("Make a file that proves the lines of a period, as a job. `contactd audit verify --proof` checks it.", proof::start),
    ]
}

/// Which events are wanted. All that is given must match.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct EventQuery {
    /// At or after this time: a date, an RFC 3339 time, or how long ago, such as `30d`.
    since: Option<String>,
    /// Before this time.
    until: Option<String>,
    /// Requests of this token, by id or name.
    token: Option<String>,
    /// `hit`, `miss` or `refused` of requests; `done` or `failed` of actions.
    outcome: Option<String>,
    /// `phone` or `email` of requests, or the name of an action.
    operation: Option<String>,
    /// Actions of this user.
    actor: Option<String>,
    /// The id of a request, as the caller sent it or as it is recorded.
    request: Option<String>,
    /// How many a page has: 50 unless it is given, 1,000 at most. A CSV file has all.
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<u64>,
    /// The `next` of the page before.
    before: Option<String>,
    /// `csv` for a file with all events.
    format: Format,
}

#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct PeriodQuery {
    /// At or after this time: a date, an RFC 3339 time, or how long ago, such as `30d`.
    since: Option<String>,
    /// Before this time.
    until: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct EventPage {
    events: Vec<EventView>,
    /// The `before` of the next page; `null` if there is none.
    next: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct RecipientList {
    recipients: Vec<Recipient>,
}

impl EventQuery {
    fn query(&self, now: Timestamp) -> Result<AuditQuery, Refusal> {
        let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let (since, until) = period(self.since.as_deref(), self.until.as_deref(), now)?;
        let outcome = given(&self.outcome);
        let actions = [AdminOutcome::Done, AdminOutcome::Failed].map(AdminOutcome::name);
        let is_known = |name: &String| AuditOutcome::number(name).is_some() || actions.contains(&&**name);
        if !outcome.as_ref().is_none_or(is_known) {
            return Err(Refusal::invalid(
                "`outcome` is hit, miss or refused for requests, done or failed for actions.",
            ));
        }
        Ok(AuditQuery {
            token: given(&self.token),
            since,
            until,
            outcome,
            operation: given(&self.operation),
            request: given(&self.request),
            actor: given(&self.actor),
            ..AuditQuery::default()
        })
    }
}

async fn show(Call { api, who }: Call, Asked(asked): Asked<EventQuery>) -> Result<Response, Refusal> {
    let query = asked.query(api.clock.now())?;
    if asked.format == Format::Csv {
        return csv::file(Call { api, who }, query).await;
    }
    let most = asked.limit.unwrap_or(PAGE);
    if !(1..=LARGEST_PAGE).contains(&most) {
        return Err(Refusal::invalid(format!("`limit` is a number from 1 to {LARGEST_PAGE}.")));
    }
    let before = asked.before.as_deref().filter(|text| !text.is_empty());
    let before = before.map(str::parse).transpose().map_err(|_| {
        Refusal::invalid("`before` is the `next` of the page before, unchanged. Leave it out to begin with the newest line.")
    })?;
    let (events, next) = api.services.audits.page(&who.actor, &query, before.as_ref(), most).await?;
    Ok(Json(EventPage { events, next: next.map(|place| place.to_string()) }).into_response())
}

async fn summary(Call { api, who }: Call, Asked(asked): Asked<PeriodQuery>) -> Answer<RecipientList> {
    let (since, until) = period(asked.since.as_deref(), asked.until.as_deref(), api.clock.now())?;
    let query = AuditQuery { since, until, ..AuditQuery::default() };
    let (recipients, _) = api.services.audits.recipients(&who.actor, &query).await?;
    Ok(Json(RecipientList { recipients }))
}

impl From<AuditError> for Refusal {
    fn from(error: AuditError) -> Self {
        match error {
            AuditError::UnknownToken(_) => Self::invalid("There is no token with this id or name."),
            AuditError::UnknownNode { known, .. } => Self::invalid(format!(
                "No node with this id or name has shipped its journal. Those that have: {known}."
            )),
            AuditError::WhichNode { known } => {
                Self::invalid(format!("This is about the journal of one node. Say which: {known}."))
            }
            AuditError::Journal(JournalError::Store(error)) | AuditError::Store(error) => error.into(),
            AuditError::Journal(error @ JournalError::File { .. }) => {
                tracing::error!(target: "contactd::admin", %error, "the journal cannot be read");
                Self::unavailable(
                    "The journal cannot be read now. Ask the operator to look at the log of the server.",
                )
            }
            AuditError::Journal(error) => StoreError::Engine(error.to_string()).into(),
        }
    }
}
