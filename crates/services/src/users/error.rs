//! Why something about accounts was not done. No text contains what somebody typed, except names that are known.

use contactd_core::HashError;
use contactd_core::store::StoreError;
use contactd_core::{MOST_PASSWORD_BYTES, NameError, SHORTEST_PASSWORD, TotpKeyError, UserNameError};

/// Why an account was not created, changed or found.
#[derive(Debug, thiserror::Error)]
pub enum UserError {
    /// It is not the name of a user.
    #[error(transparent)]
    Name(#[from] UserNameError),
    /// The name is taken, also if that user is disabled.
    #[error(
        "there is a user {0} already; `contactd user password {0}` makes a new password, `contactd user role {0} ROLE` changes the role"
    )]
    Exists(String),
    /// There is no such user.
    #[error("there is no user with that name; `contactd user list` shows them")]
    Unknown,
    /// No admin who can log in would be left.
    #[error(
        "nothing was changed: {0} is the last admin who can log in; make somebody else an admin first, with `contactd user role NAME admin`"
    )]
    LastAdmin(String),
    /// The current password was not given.
    #[error("the current password is wrong")]
    WrongPassword,
    /// The new password is too short.
    #[error("a password needs at least {SHORTEST_PASSWORD} characters")]
    TooShort,
    /// The new password is too long.
    #[error("a password has at most {MOST_PASSWORD_BYTES} bytes")]
    TooLong,
    /// The new password is the current one.
    #[error("the new password is the same as the current one; choose another one")]
    SamePassword,
    /// The code of the app is wrong, or was used before.
    #[error("the code is wrong or was used before; check the clock of the phone, and give the next code")]
    WrongCode,
    /// The account was changed in between.
    #[error("nothing was changed: somebody else has changed this user meanwhile; try again")]
    Outdated,
    /// The key of the second factor is missing.
    #[error(transparent)]
    Key(#[from] TotpKeyError),
    /// An admin token cannot have this name.
    #[error(transparent)]
    TokenName(#[from] NameError),
    /// Another admin token has that name, or had it.
    #[error(
        "{0} has this name, or had it, and what it did is on record under it; choose another name, such as the same with a date"
    )]
    TokenTaken(String),
    /// It would have expired already.
    #[error("the token would have expired already; give it a longer time, such as 90d")]
    NoLifetime,
    /// There is no such admin token. What was given is left out: it may be the token itself.
    #[error("there is no admin token with that id or name; `contactd admin-token list` shows them")]
    UnknownToken,
    /// Several live admin tokens have that name.
    #[error(
        "nothing was changed: {} live admin tokens have the name {name}: {}; give the id of the one you mean",
        .ids.len(),
        .ids.join(", ")
    )]
    AmbiguousToken {
        /// The name.
        name: String,
        /// The ids of the tokens, oldest first.
        ids: Vec<String>,
    },
    /// A password could not be hashed.
    #[error("a password could not be hashed: 19 MiB of memory are needed for it")]
    Hash,
    /// The system provides no random numbers.
    #[error("no randomness from the system: {0}")]
    Random(#[from] getrandom::Error),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<HashError> for UserError {
    fn from(error: HashError) -> Self {
        match error {
            HashError::Random(error) => Self::Random(error),
            HashError::Failed => Self::Hash,
        }
    }
}

/// Why somebody is not logged in.
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    /// The name or the password is wrong, or the user is disabled: nobody learns which.
    #[error("the name or the password is wrong")]
    Wrong,
    /// The password is right, and a code of the user's app is needed: none was given, or it is wrong or was used before. Both count as
    /// attempts that failed.
    #[error("a code of the authenticator app is needed, and each counts once")]
    CodeNeeded,
    /// The key of the second factor is missing.
    #[error(transparent)]
    Key(#[from] TotpKeyError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}
