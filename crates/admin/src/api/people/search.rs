//! Searching for a person, finding people by their names, and the access report.

use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use contactd_core::SlugParts;
use contactd_services::ReadFrom;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::auth::Call;
use crate::api::extract::{Answer, Json, Sent};
use crate::api::people::found::{FoundShown, ReportShown};
use crate::api::people::{Whom, search_turn};
use crate::api::refusal::Refusal;
use crate::{answer, render_report};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SearchAsked {
    q: Whom,
    /// The case it is done for.
    #[serde(default)]
    ticket: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReportAsked {
    q: Whom,
    /// The case it is done for.
    #[serde(default)]
    ticket: Option<String>,
    /// Whether the page lists everything, also what it would only sum up.
    #[serde(default)]
    all: bool,
}

pub(super) async fn search(Call { api, who }: Call, Sent(sent): Sent<SearchAsked>) -> Answer<FoundShown> {
    let (named, actor) = (sent.q.read(&api)?, who.actor_for(sent.ticket.as_deref()));
    let _turn = search_turn().await?;
    let found = api.services.subjects.search(&actor, &named).await?;
    Ok(Json(FoundShown::new(&named, found)))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FindAsked {
    /// Parts of the slug, in any order and spelling: letters and digits, at least two.
    name: String,
    /// The case it is done for.
    #[serde(default)]
    ticket: Option<String>,
}

/// Whose slugs have all parts of a name.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct PeopleFound {
    /// The URLs of the profiles, in order.
    profiles: Vec<String>,
    /// Whether these are all. If not, more of the name is needed.
    is_complete: bool,
}

pub(super) async fn find(Call { api, who }: Call, Sent(sent): Sent<FindAsked>) -> Answer<PeopleFound> {
    let parts = SlugParts::read(&sent.name).ok_or_else(|| {
        Refusal::invalid(
            "This is too short. Type at least two letters or digits of the name in the profile URL.",
        )
    })?;
    let actor = who.actor_for(sent.ticket.as_deref());
    let _turn = search_turn().await?;
    let found = api.services.subjects.find(&actor, &parts).await?;
    let profiles = found.profiles.iter().map(|profile| profile.as_str().to_owned()).collect();
    Ok(Json(PeopleFound { profiles, is_complete: found.is_complete }))
}

pub(super) async fn report(
    Call { api, who }: Call,
    headers: HeaderMap,
    Sent(sent): Sent<ReportAsked>,
) -> Result<Response, Refusal> {
    let (named, actor) = (sent.q.read(&api)?, who.actor_for(sent.ticket.as_deref()));
    let _turn = search_turn().await?;
    let report = api.services.subjects.report(&actor, &named, ReadFrom::Index).await?;
    Ok(match wants_page(&headers) {
        true => page(render_report(&report, sent.all), sent.ticket.as_deref()),
        false => Json(ReportShown::new(&named, report)).into_response(),
    })
}

/// Whether the page is asked for, and not the JSON.
fn wants_page(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut kinds = accepted
        .flat_map(|text| text.split(','))
        .map(|kind| kind.split(';').next().unwrap_or_default().trim());
    let first =
        kinds.find(|kind| ["text/html", "application/json"].contains(&kind.to_ascii_lowercase().as_str()));
    first.is_some_and(|kind| kind.eq_ignore_ascii_case("text/html"))
}

/// A page to save. If a browser shows it, it runs nothing and reaches nothing of the console.
fn page(page: String, ticket: Option<&str>) -> Response {
    let policy = "default-src 'none'; style-src 'unsafe-inline'; sandbox";
    let name = answer::file_name("access-report", ticket, "html");
    let page = answer::attachment("text/html; charset=utf-8", &name, page.into());
    ([(header::CONTENT_SECURITY_POLICY, policy)], page).into_response()
}
