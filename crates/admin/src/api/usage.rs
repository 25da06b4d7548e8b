//! How much was looked up.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::Response;
use axum::response::IntoResponse;
use contactd_core::{Moment, csv_row};
use contactd_services::{DayLookups, Days, NamedUsage, TokenLookups, by_token};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::Api;
use crate::api::auth::Who;
use crate::api::endpoint::Endpoint;
use crate::api::extract::{Asked, Json};
use crate::api::period::{Format, csv_file, moment};
use crate::api::permission::{Needs, Permission};
use crate::api::refusal::Refusal;

/// The period if none is given.
const NORMAL: &str = "30d";

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let needs = Needs::May(Permission::Usage);
    vec![
        Endpoint::get("/usage", needs, "showUsage", show)
            .says("How much was looked up in a period: by day, by token, or both as CSV.")
            .asks::<UsageQuery>()
            .answers_or::<UsageShown>("text/csv"),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct UsageQuery {
    /// At or after the day of this time: a date, an RFC 3339 time, or how long ago, such as `30d`.
    #[serde(default)]
    since: Option<String>,
    /// Before this time.
    #[serde(default)]
    until: Option<String>,
    /// What the counts are summed up by; `day` if nothing is said.
    #[serde(default)]
    by: By,
    /// `csv` for a file with a row for every token and day.
    #[serde(default)]
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
        days: Vec<DayShown>,
    },
    ByToken {
        /// Tokens that asked for something, the one that received most first.
        tokens: Vec<TokenShown>,
    },
}

/// Lookups on one UTC day.
#[derive(Serialize, JsonSchema)]
pub(crate) struct DayShown {
    /// The day, such as `2026-05-01`.
    day: String,
    hits: u64,
    misses: u64,
    refused: u64,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct TokenShown {
    /// The id of the token.
    token: String,
    token_name: Option<String>,
    hits: u64,
    misses: u64,
    refused: u64,
}

impl From<DayLookups> for DayShown {
    fn from(DayLookups { day, hits, misses, refused }: DayLookups) -> Self {
        Self { day, hits, misses, refused }
    }
}

impl From<TokenLookups> for TokenShown {
    fn from(TokenLookups { token, token_name, hits, misses, refused }: TokenLookups) -> Self {
        Self { token, token_name, hits, misses, refused }
    }
}

async fn show(
    State(api): State<Arc<Api>>,
    who: Who,
    Asked(asked): Asked<UsageQuery>,
) -> Result<Response<Body>, Refusal> {
    let since: Moment =
        moment("since", asked.since.as_deref().filter(|text| !text.is_empty()).or(Some(NORMAL)))?
            .ok_or_else(|| Refusal::invalid("`since` is missing."))?;
    let until = moment("until", asked.until.as_deref())?;
    let days = Days::between(since, until, api.clock.now())
        .map_err(|error| Refusal::invalid(crate::api::refusal::sentence(&error.to_string())))?;
    let (usage, _) = api.services.audits.usage_of(&who.actor, None, &days).await?;
    Ok(match (asked.format, asked.by) {
        (Format::Csv, _) => csv_file("usage.csv", Body::from(csv(&usage))),
        (Format::Json, By::Day) => {
            let days = days.by_day(usage.iter().map(|usage| &usage.usage)).into_iter().map(DayShown::from);
            Json(UsageShown::ByDay { days: days.collect() }).into_response()
        }
        (Format::Json, By::Token) => {
            let tokens = by_token(usage).into_iter().map(TokenShown::from).collect();
            Json(UsageShown::ByToken { tokens }).into_response()
        }
    })
}

/// The columns of `contactd usage --csv`.
fn csv(usage: &[NamedUsage]) -> String {
    let mut rows = csv_row(["day", "token", "name", "hits", "misses", "refused"]);
    for NamedUsage { usage, token_name } in usage {
        let [hits, misses, refused] =
            [usage.hits, usage.misses, usage.refused].map(|count| count.to_string());
        let day = Days::name(usage.day);
        let name = token_name.as_deref().unwrap_or_default();
        rows.push_str(&csv_row([&*day, &usage.token, name, &hits, &misses, &refused]));
    }
    rows
}
