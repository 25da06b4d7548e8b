//! How much was looked up.

use axum::response::{IntoResponse, Response};
use contactd_core::{Moment, csv_row};
use contactd_services::views::{DayLookups, TokenLookups, UsageView};
use contactd_services::{Days, by_token};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::answer;
use crate::api::auth::Call;
use crate::api::endpoint::Endpoint;
use crate::api::extract::{Asked, Json};
use crate::api::period::{Format, moment};
use crate::api::permission::{Needs, Permission};
use crate::api::refusal::Refusal;

/// The period if none is given.
const NORMAL: &str = "30d";

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let needs = Needs::May(Permission::Usage);
    vec![
        Endpoint::get("/usage", needs, "showUsage")
            .does("How much was looked up in a period: by day, by token, or both as CSV.", show)
            .answers_or::<UsageShown>("text/csv"),
    ]
}

#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct UsageQuery {
    /// At or after the day of this time: a date, an RFC 3339 time, or how long ago, such as `30d`.
    since: Option<String>,
    /// Before this time.
    until: Option<String>,
    /// What the counts are summed up by; `day` if nothing is said.
    by: By,
    /// `csv` for a file with a row for every token and day.
    format: Format,
}

#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum By {
    #[default]
    Day,
    Token,
}

#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
enum UsageShown {
    ByDay {
        /// Every day of the period, also those on which nothing was looked up.
        days: Vec<DayLookups>,
    },
    ByToken {
        /// Tokens that asked for something, the one that received most first.
        tokens: Vec<TokenLookups>,
    },
}

async fn show(Call { api, who }: Call, Asked(asked): Asked<UsageQuery>) -> Result<Response, Refusal> {
    let since: Moment =
        moment("since", asked.since.as_deref().filter(|text| !text.is_empty()).or(Some(NORMAL)))?
            .ok_or_else(|| Refusal::invalid("`since` is missing."))?;
    let until = moment("until", asked.until.as_deref())?;
    let days = Days::between(since, until, api.clock.now())
        .map_err(|error| Refusal::invalid(crate::api::refusal::sentence(&error.to_string())))?;
    let (usage, _) = api.services.audits.usage_of(&who.actor, None, &days).await?;
    Ok(match (asked.format, asked.by) {
        (Format::Csv, _) => answer::csv_file("usage.csv", csv(&usage).into()),
        (Format::Json, By::Day) => Json(UsageShown::ByDay { days: days.by_day(&usage) }).into_response(),
        (Format::Json, By::Token) => Json(UsageShown::ByToken { tokens: by_token(usage) }).into_response(),
    })
}

/// The columns of `contactd usage --csv`.
fn csv(usage: &[UsageView]) -> String {
    let mut rows = csv_row(UsageView::COLUMNS);
    for row in usage {
        rows.push_str(&csv_row(row.cells()));
    }
    rows
}
