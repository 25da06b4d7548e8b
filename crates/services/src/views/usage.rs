//! How much was looked up.

use contactd_core::Timestamp;
use contactd_core::store::AuditUsage;
use schemars::JsonSchema;
use serde::Serialize;

use crate::Days;

/// Lookups on one UTC day.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "DayShown")]
pub struct DayLookups {
    /// The day, such as `2026-05-01`.
    pub day: String,
    pub hits: u64,
    pub misses: u64,
    pub refused: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TokenShown")]
pub struct TokenLookups {
    /// The id of the token.
    pub token: String,
    pub token_name: Option<String>,
    pub hits: u64,
    pub misses: u64,
    pub refused: u64,
}

/// What one token asked for and received.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "RecipientShown")]
pub struct Recipient {
    /// The id of the token.
    pub token: String,
    pub token_name: Option<String>,
    pub requests: u64,
    pub hits: u64,
    pub misses: u64,
    pub refused: u64,
    pub first_at: Timestamp,
    pub last_at: Timestamp,
}

/// Lookups of a token on one UTC day.
#[derive(Clone, Debug, Serialize)]
pub struct UsageView {
    /// The day, such as `2026-05-01`.
    pub day: String,
    /// The id of the token.
    pub token: String,
    pub name: Option<String>,
    pub hits: u64,
    pub misses: u64,
    pub refused: u64,
}

impl UsageView {
    pub(crate) fn of(name: Option<String>, usage: AuditUsage) -> Self {
        let AuditUsage { token, day, hits, misses, refused } = usage;
        Self { day: Days::name(day), token, name, hits, misses, refused }
    }

    /// The columns of a CSV file.
    pub const COLUMNS: [&'static str; 6] = ["day", "token", "name", "hits", "misses", "refused"];

    /// The cells of its row, in the order of [`COLUMNS`](Self::COLUMNS).
    pub fn cells(&self) -> [String; 6] {
        let [hits, misses, refused] = [self.hits, self.misses, self.refused].map(|count| count.to_string());
        let name = self.name.clone().unwrap_or_default();
        [self.day.clone(), self.token.clone(), name, hits, misses, refused]
    }
}
