//! Users of the console, and tokens of the admin API.

use contactd_core::{AdminToken, Role, Timestamp, User};
use schemars::JsonSchema;
use serde::Serialize;

/// A user.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "UserShown")]
pub struct UserView {
    pub name: String,
    pub role: Role,
    pub created_at: Timestamp,
    pub disabled_at: Option<Timestamp>,
    pub has_totp: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub must_change_password: Option<bool>,
    pub last_login_at: Option<Timestamp>,
}

impl From<User> for UserView {
    fn from(user: User) -> Self {
        Self {
            has_totp: user.totp.is_some(),
            name: user.name,
            role: user.role,
            created_at: user.created_at,
            disabled_at: user.disabled_at,
            must_change_password: None,
            last_login_at: user.last_login_at,
        }
    }
}

/// An admin token.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "AdminTokenShown")]
pub struct AdminTokenView {
    pub id: String,
    pub name: String,
    pub role: Role,
    /// `live`, `expired`, `revoked`, or `suspended`: its owner is no admin who can log in.
    pub state: &'static str,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub revoked_at: Option<Option<Timestamp>>,
    /// The user whose token it is; absent if it was made on the command line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    pub last_used_at: Option<Timestamp>,
}

impl AdminTokenView {
    /// As it is shown at `now`.
    pub fn of(token: AdminToken, now: Timestamp) -> Self {
        Self {
            state: token.state(now),
            id: token.id,
            name: token.name,
            role: token.role,
            created_at: token.created_at,
            expires_at: token.expires_at,
            revoked_at: None,
            owner: token.owner,
            last_used_at: token.last_used_at,
        }
    }
}
