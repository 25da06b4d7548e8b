//! Users.

use serde::{Deserialize, Serialize};

use crate::access::token::random_id;
use crate::{PasswordHash, Role, Timestamp, TotpSeed};

/// Somebody who can log in to the console. Its JSON is what an engine stores: nobody else gets it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// The name, which is never given to somebody else.
    pub name: String,
    /// What they may do.
    pub role: Role,
    /// When the account was created.
    pub created_at: Timestamp,
    /// When it was disabled, if it is.
    pub disabled_at: Option<Timestamp>,
    /// The hash of the password.
    pub password: PasswordHash,
    /// Whether the password is a one-time password: it has to be changed before anything else is done.
    pub must_change_password: bool,
    /// The second factor, if it is set up.
    pub totp: Option<TotpSeed>,
    /// When they last logged in.
    pub last_login_at: Option<Timestamp>,
    /// A random text that changes whenever the sessions of the user have to end: with the password, with the role, when
    /// the account is disabled, when the second factor is removed. A session remembers it.
    pub generation: String,
}

impl User {
    /// A new user with a one-time password.
    pub fn new(
        name: &str,
        role: Role,
        password: PasswordHash,
        created_at: Timestamp,
    ) -> Result<Self, getrandom::Error> {
        Ok(Self {
            name: name.to_owned(),
            role,
            created_at,
            disabled_at: None,
            password,
            must_change_password: true,
            totp: None,
            last_login_at: None,
            generation: Self::new_generation()?,
        })
    }

    /// A new value for [`generation`](Self::generation).
    pub fn new_generation() -> Result<String, getrandom::Error> {
        random_id("gen_")
    }

    /// Whether the account is not disabled.
    pub const fn is_enabled(&self) -> bool {
        self.disabled_at.is_none()
    }

    /// Whether this is an admin who can log in.
    pub fn is_enabled_admin(&self) -> bool {
        self.role == Role::Admin && self.is_enabled()
    }
}
