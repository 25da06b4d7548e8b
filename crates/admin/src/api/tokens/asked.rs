//! What is asked for about tokens.

use std::str::FromStr;
use std::time::Duration;

use contactd_core::{Lifetime, OrNone, Quota, Rate, Scope, Scopes, Span, TokenUpdate};
use contactd_services::{NewToken, defaults};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::api::refusal::{Refusal, sentence};

/// The days that are shown unless something else is asked for, and at most.
const DEFAULT_DAYS: u16 = 30;
const MOST_DAYS: u16 = 366;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LookupTokenToCreate {
    /// Who uses it. People who ask who received their data read this name.
    #[schemars(length(min = 1, max = 100))]
    name: String,
    /// What it may do: `phone` and `email` unless it is given. `mcp` is for agents, needs a quota, and one of the others beside it.
    #[serde(default)]
    #[schemars(length(min = 1))]
    scopes: Option<Vec<Scope>>,
    /// Whether it is for tests: the sandbox makes its answers up, and nothing about anybody is disclosed. Such a token has no
    /// quota, and 10 lookups a second unless a rate is given.
    #[serde(default)]
    sandbox: bool,
    /// How long it is accepted, such as `90d`, or `never`. 90 days unless it is given.
    #[serde(default)]
    expires: Option<String>,
    /// Most lookups, such as `50/s`, `600/m` or `1000/h`.
    #[serde(default)]
    rate: Option<String>,
    /// How many may come at once. It needs a rate.
    #[serde(default)]
    #[schemars(range(min = 1))]
    burst: Option<u32>,
    /// Most lookups that find something, such as `10000/day` or `200000/month`.
    #[serde(default)]
    quota: Option<String>,
}

#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct TokenChange {
    /// What it may do. `mcp` is for agents, needs a quota, and one of the others beside it.
    #[schemars(length(min = 1))]
    scopes: Option<Vec<Scope>>,
    /// How long it is accepted from now on, such as `90d`, or `never`.
    expires: Option<String>,
    /// Most lookups, such as `50/s`, `600/m` or `1000/h`; `none` removes the limit.
    rate: Option<String>,
    /// How many may come at once. It needs a rate.
    #[schemars(range(min = 1))]
    burst: Option<u32>,
    /// Most lookups that find something, such as `10000/day` or `200000/month`; `none` removes the limit. It applies to all
    /// tokens that were made from each other by rotation.
    quota: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Rotation {
    /// How long the old token stays valid, such as `1h`; at once: `0s`. 24 hours unless it is given.
    #[serde(default)]
    overlap: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct HowManyDays {
    /// How many days up to today; 30 unless it is given.
    #[serde(default)]
    #[schemars(range(min = 1, max = 366))]
    days: Option<u16>,
}

impl LookupTokenToCreate {
    pub(super) fn read(self) -> Result<NewToken, Refusal> {
        let rate: Option<Rate> = limit("rate", self.rate.as_deref())?;
        let rate = match (rate, burst(self.burst)?) {
            (Some(rate), burst) => Some(Rate { burst: burst.unwrap_or(rate.burst), ..rate }),
            (None, None) => None,
            (None, Some(_)) => return Err(Refusal::invalid("A burst needs a rate too.")),
        };
        Ok(NewToken {
            scopes: scopes(self.scopes.as_deref())?.unwrap_or(Scopes::ALL),
            lifetime: lifetime(self.expires.as_deref().unwrap_or(defaults::TOKEN_LIFETIME))?,
            sandbox: self.sandbox,
            rate,
            quota: limit("quota", self.quota.as_deref())?,
            name: self.name,
        })
    }
}

impl TokenChange {
    pub(super) fn read(&self) -> Result<TokenUpdate, Refusal> {
        Ok(TokenUpdate {
            scopes: scopes(self.scopes.as_deref())?,
            lifetime: self.expires.as_deref().map(lifetime).transpose()?,
            rate: limit::<OrNone<Rate>>("rate", self.rate.as_deref())?,
            burst: burst(self.burst)?,
            quota: limit::<OrNone<Quota>>("quota", self.quota.as_deref())?,
        })
    }
}

impl Rotation {
    pub(super) fn overlap(&self) -> Result<Duration, Refusal> {
        let text = self.overlap.as_deref().unwrap_or(defaults::ROTATION_OVERLAP);
        let span = text.parse().map(|Span(length)| length);
        span.map_err(|_| Refusal::invalid("`overlap` is a length of time such as 0s, 1h, 24h or 7d."))
    }
}

impl HowManyDays {
    pub(super) fn read(&self) -> Result<u16, Refusal> {
        let days = self.days.unwrap_or(DEFAULT_DAYS);
        let is_possible = (1..=MOST_DAYS).contains(&days);
        is_possible.then_some(days).ok_or_else(|| Refusal::invalid("`days` is a number from 1 to 366."))
    }
}

fn scopes(named: Option<&[Scope]>) -> Result<Option<Scopes>, Refusal> {
    let Some(named) = named else { return Ok(None) };
    if named.is_empty() {
        return Err(Refusal::invalid(
            "Choose at least one thing that the token may look up: phone or email.",
        ));
    }
    Ok(Some(Scopes::of(named)))
}

fn lifetime(text: &str) -> Result<Lifetime, Refusal> {
    text.parse().map_err(|_| Refusal::invalid("`expires` is a length of time such as 12h or 90d, or never."))
}

fn limit<T: FromStr<Err: ToString>>(name: &str, text: Option<&str>) -> Result<Option<T>, Refusal> {
    let read = text.map(str::parse).transpose();
    read.map_err(|error: T::Err| {
        Refusal::invalid(format!("The {name} cannot be read. {}", sentence(&error.to_string())))
    })
}

fn burst(burst: Option<u32>) -> Result<Option<u32>, Refusal> {
    match burst {
        Some(0) => Err(Refusal::invalid("A burst is at least 1.")),
        burst => Ok(burst),
    }
}
