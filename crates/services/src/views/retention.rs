//! How long the details of a source are held.

use contactd_core::store::SourceRetention;
use contactd_core::{Span, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SourceShown")]
pub struct SourceView {
    pub source: String,
    /// How long its details are held after they were last known correct, such as `365d`; `null` if only their own expiry ends them.
    pub max_age: Option<Span>,
    /// How many details it holds.
    pub details: u64,
    /// How many of them have expired or are too old, and are removed by the next sweep.
    pub due: u64,
    /// Those that end next after these.
    pub next: Option<NextView>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "NextShown")]
pub struct NextView {
    pub details: u64,
    /// When the last of them ends.
    pub by: Timestamp,
}

impl From<SourceRetention> for SourceView {
    fn from(SourceRetention { source, max_age, details, due, next, .. }: SourceRetention) -> Self {
        Self {
            source,
            max_age,
            details,
            due,
            next: next.map(|next| NextView { details: next.details, by: next.by }),
        }
    }
}
