//! Tokens as they are printed.

use contactd_core::{Rate, Timestamp, Token, UpdatedToken};
use serde::Serialize;

pub(super) const HEADER: [&str; 10] =
    ["ID", "NAME", "SCOPES", "CREATED", "EXPIRES", "LAST USED", "HITS", "RATE", "QUOTA", "STATE"];

/// What is known about a token, as it is printed.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ShownToken<'a> {
    id: &'a str,
    name: &'a str,
    /// The id of the token that it was made from by rotation.
    rotated_from: Option<&'a str>,
    scopes: Vec<&'static str>,
    created_at: Timestamp,
    expires_at: Option<Timestamp>,
    last_used_at: Option<Timestamp>,
    hits: u64,
    revoked_at: Option<Timestamp>,
    rate: Option<String>,
    burst: Option<u32>,
    quota: Option<String>,
    state: &'static str,
    /// Only if the token was just created.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<&'a str>,
}

impl<'a> ShownToken<'a> {
    pub(super) fn new(token: &'a Token, now: Timestamp) -> Self {
        Self {
            id: &token.id,
            name: &token.name,
            rotated_from: token.rotated_from.as_deref(),
            scopes: token.scopes.names().collect(),
            created_at: token.created_at,
            expires_at: token.expires_at,
            last_used_at: token.last_used_at,
            hits: token.hits,
            revoked_at: token.revoked_at,
            rate: token.rate.map(|rate| rate.to_string()),
            burst: token.rate.map(|rate| rate.burst),
            quota: token.quota.map(|quota| quota.to_string()),
            state: token.state(now),
            token: None,
        }
    }

    /// With the token itself, which is known only when it is created.
    pub(super) fn with_secret(mut self, secret: &'a str) -> Self {
        self.token = Some(secret);
        self
    }

    pub(super) fn cells(&self) -> Vec<String> {
        let or = |text: Option<String>, otherwise: &str| text.unwrap_or_else(|| otherwise.to_owned());
        let time = |at: Option<Timestamp>| at.map(|at| at.to_string());
        vec![
            self.id.to_owned(),
            self.name.to_owned(),
            self.scopes.join("+"),
            self.created_at.to_string(),
            or(time(self.expires_at), "never"),
            or(time(self.last_used_at), "-"),
            self.hits.to_string(),
            or(self.rate.clone(), "-"),
            or(self.quota.clone(), "-"),
            self.state.to_owned(),
        ]
    }
}

/// What an update changed: each from what to what.
pub(super) fn changes(UpdatedToken { before, after, .. }: &UpdatedToken) -> String {
    let scopes = |token: &Token| token.scopes.names().collect::<Vec<_>>().join("+");
    let expiry = |token: &Token| token.expires_at.map_or("never".to_owned(), |end| end.to_string());
    let quota = |token: &Token| token.quota.map_or("none".to_owned(), |quota| quota.to_string());
    let told = [
        ("scope", scopes(before), scopes(after)),
        ("expires", expiry(before), expiry(after)),
        ("rate", rate(before.rate), rate(after.rate)),
        ("quota", quota(before), quota(after)),
    ];
    let changed = told.iter().filter(|(_, before, after)| before != after);
    let changes: Vec<String> =
        changed.map(|(what, before, after)| format!("{what} {before} -> {after}")).collect();
    if changes.is_empty() { "nothing changed".to_owned() } else { changes.join(", ") }
}

fn rate(rate: Option<Rate>) -> String {
    match rate {
        None => "none".to_owned(),
        Some(rate) if rate.burst == rate.count => rate.to_string(),
        Some(rate) => format!("{rate} with burst {}", rate.burst),
    }
}
