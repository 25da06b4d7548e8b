//! Tokens of callers. The admin API and commands have the fields in different orders, and different words for the state.

use contactd_core::{Timestamp, Token};
use schemars::JsonSchema;
use serde::Serialize;

/// A token.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TokenShown")]
pub struct TokenView {
    #[serde(flatten)]
    pub name: TokenName,
    pub revoked_at: Option<Timestamp>,
    #[serde(flatten)]
    pub used: TokenUse,
    #[serde(flatten)]
    pub limits: TokenLimits,
    /// What is used of the quota, by all tokens that share it.
    pub quota_used: Option<u64>,
    pub state: TokenState,
}

/// A token, as commands print it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListedToken {
    #[serde(flatten)]
    pub name: TokenName,
    #[serde(flatten)]
    pub used: TokenUse,
    pub revoked_at: Option<Timestamp>,
    #[serde(flatten)]
    pub limits: TokenLimits,
    pub state: &'static str,
    /// The secret, only if the token was just created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenName {
    pub id: String,
    pub name: String,
    /// The id of the token in whose place it was made by rotation.
    pub rotated_from: Option<String>,
    #[schemars(with = "Vec<contactd_core::Scope>")]
    pub scopes: Vec<&'static str>,
    /// Whether the sandbox answers it: what it receives is made up, and not counted.
    pub sandbox: bool,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenUse {
    pub last_used_at: Option<Timestamp>,
    /// How many lookups with it found something.
    pub hits: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct TokenLimits {
    /// Such as `50/s`, `600/m` or `1000/h`.
    pub rate: Option<String>,
    pub burst: Option<u32>,
    /// Such as `10000/day` or `200000/month`.
    pub quota: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TokenState {
    Live,
    Expired,
    Revoked,
}

impl TokenView {
    /// As it is shown at `now`, with what is used of its quota.
    pub fn of(token: &Token, quota_used: Option<u64>, now: Timestamp) -> Self {
        let state = match token.revoked_at {
            Some(_) => TokenState::Revoked,
            None if token.is_live(now) => TokenState::Live,
            None => TokenState::Expired,
        };
        Self {
            name: token.into(),
            revoked_at: token.revoked_at,
            used: token.into(),
            limits: token.into(),
            quota_used,
            state,
        }
    }
}

impl ListedToken {
    /// As it is printed at `now`.
    pub fn of(token: &Token, now: Timestamp) -> Self {
        Self {
            name: token.into(),
            used: token.into(),
            revoked_at: token.revoked_at,
            limits: token.into(),
            state: token.state(now),
            token: None,
        }
    }
}

impl From<&Token> for TokenName {
    fn from(token: &Token) -> Self {
        Self {
            id: token.id.clone(),
            name: token.name.clone(),
            rotated_from: token.rotated_from.clone(),
            scopes: token.scopes.names().collect(),
            sandbox: token.sandbox,
            created_at: token.created_at,
            expires_at: token.expires_at,
        }
    }
}

impl From<&Token> for TokenUse {
    fn from(token: &Token) -> Self {
        Self { last_used_at: token.last_used_at, hits: token.hits }
    }
}

impl From<&Token> for TokenLimits {
    fn from(token: &Token) -> Self {
        Self {
            rate: token.rate.map(|rate| rate.to_string()),
            burst: token.rate.map(|rate| rate.burst),
            quota: token.quota.map(|quota| quota.to_string()),
        }
    }
}
