//! Periods of time in queries.

use contactd_core::{Moment, Timestamp};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::api::refusal::Refusal;

/// The form of an answer. A link cannot say what it accepts, so the query does.
#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Format {
    #[default]
    Json,
    Csv,
}

/// The time that a parameter names; `None` if it is not given.
pub(crate) fn moment(name: &str, text: Option<&str>) -> Result<Option<Moment>, Refusal> {
    let Some(text) = text.filter(|text| !text.is_empty()) else { return Ok(None) };
    let parsed = text.parse::<Moment>();
    parsed.map(Some).map_err(|advice| Refusal::invalid(format!("`{name}` is not a time: {advice}.")))
}

/// Both ends of a period, as times. It is refused if it ends before it begins.
pub(crate) fn period(
    since: Option<&str>,
    until: Option<&str>,
    now: Timestamp,
) -> Result<(Option<Moment>, Option<Moment>), Refusal> {
    // Fixed now, so that all pages of an answer mean the same.
    let fixed = |moment: Moment| Moment::At(moment.when(now));
    let (since, until) = (moment("since", since)?.map(fixed), moment("until", until)?.map(fixed));
    if let (Some(since), Some(until)) = (since, until)
        && since.when(now) >= until.when(now)
    {
        return Err(Refusal::invalid("`since` is not before `until`, so nothing can match."));
    }
    Ok((since, until))
}
