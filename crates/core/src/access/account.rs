//! Accounts of the console and the admin API: users, who log in, and admin tokens, which programs send.

mod admin_token;
mod change;
mod name;
mod password;
mod role;
mod totp;
mod user;

pub use admin_token::AdminToken;
pub use change::{NewPassword, UserChange, UserChanged};
pub use name::{UserName, UserNameError};
pub use password::{MOST_PASSWORD_BYTES, PasswordHash, SHORTEST_PASSWORD};
pub use role::{Role, UnknownRole};
pub use totp::{SecondFactorKey, TotpKeyError, TotpSecret, TotpSeed};
pub use user::User;

pub use password::{HashError, one_time_password};
pub use totp::{accepted_step, secret_of, setup_uri, to_base32};
