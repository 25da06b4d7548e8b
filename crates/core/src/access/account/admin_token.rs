//! Tokens of the admin API.

use serde::{Deserialize, Serialize};

use crate::access::token::random_id;
use crate::{Role, Timestamp, User};

/// The record of a token of the admin API, without its secret. Its JSON is what an engine stores.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdminToken {
    /// The id that commands use.
    pub id: String,
    /// The name that people use: the program that sends it.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it expires: it is refused from then on.
    pub expires_at: Option<Timestamp>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
    /// The user whose token it is: it is accepted only while they are an admin who can log in. A token that was made on the command
    /// line belongs to nobody: to whoever has the machine.
    #[serde(default)]
    pub owner: Option<String>,
    /// When it was last accepted, to about a minute.
    #[serde(skip)]
    pub last_used_at: Option<Timestamp>,
    /// Whether its owner is no admin who can log in. An engine does not store it: it follows from the users.
    #[serde(skip)]
    pub is_suspended: bool,
}

impl AdminToken {
    /// The record of a new token.
    pub fn new(
        name: &str,
        role: Role,
        created_at: Timestamp,
        expires_at: Option<Timestamp>,
    ) -> Result<Self, getrandom::Error> {
        let (id, name) = (random_id("adm_")?, name.to_owned());
        Ok(Self {
            id,
            name,
            role,
            created_at,
            expires_at,
            revoked_at: None,
            owner: None,
            last_used_at: None,
            is_suspended: false,
        })
    }

    /// Whether it is accepted at `now`.
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.revoked_at.is_none() && !self.is_suspended && self.expires_at.is_none_or(|end| now < end)
    }

    /// The state at `now`, in a word.
    pub fn state(&self, now: Timestamp) -> &'static str {
        if self.revoked_at.is_some() {
            "revoked"
        } else if self.is_live(now) {
            "live"
        } else if self.is_suspended {
            "suspended"
        } else {
            "expired"
        }
    }

    /// Suspends the token unless it has no owner, or its owner is an admin who can log in.
    pub fn look_at_owner(&mut self, users: &[User]) {
        let is_owner = |user: &User, owner: &str| user.name == owner && user.is_enabled_admin();
        self.is_suspended =
            self.owner.as_deref().is_some_and(|owner| !users.iter().any(|user| is_owner(user, owner)));
    }
}
