//! Flags of commands about accounts: users of the console, and tokens of the admin API.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use contactd_core::{Lifetime, Role};
use contactd_services::defaults;

use super::JsonArg;

#[derive(Debug, Subcommand)]
pub(crate) enum UserCommand {
    /// Create a user and print a one-time password, which has to be changed at the first log-in
    #[command(after_help = "Example:\n  contactd user create olga --role admin")]
    Create(RoleArgs),
    /// List users
    #[command(after_help = "Example:\n  contactd user list --json")]
    List(JsonArg),
    /// Keep a user from logging in, and end their sessions and admin tokens; the last admin cannot be disabled
    #[command(after_help = "Example:\n  contactd user disable olga")]
    Disable(UserArgs),
    /// Let a disabled user log in again
    #[command(after_help = "Example:\n  contactd user enable olga")]
    Enable(UserArgs),
    /// Give a user another role, and end their sessions; the last admin stays one
    #[command(after_help = "Example:\n  contactd user role olga auditor")]
    Role {
        #[command(flatten)]
        user: UserArgs,
        /// What the user may do from now on
        #[arg(value_parser = role())]
        role: Role,
    },
    /// Print a new one-time password for a user, and end their sessions
    #[command(after_help = "Example:\n  contactd user password olga")]
    Password(UserArgs),
    /// Remove the second factor of a user who has lost it, and end their sessions
    #[command(after_help = "Example:\n  contactd user reset-totp olga")]
    ResetTotp(UserArgs),
}

#[derive(Debug, Args)]
pub(crate) struct UserArgs {
    /// The user's name
    // It is checked later: a message that repeats it could show a password.
    pub(crate) name: String,
}

#[derive(Debug, Args)]
pub(crate) struct RoleArgs {
    /// A name: lower-case letters, digits, dots, dashes and underscores; it stays on record, and is never given again
    pub(crate) name: String,
    /// What the account may do
    #[arg(long, value_parser = role())]
    pub(crate) role: Role,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AdminTokenCommand {
    /// Create a token for the admin API and print it; it is shown only once
    #[command(
        after_help = "Example:\n  contactd admin-token create nightly-import --role operator --expires 365d > token"
    )]
    Create(AdminTokenArgs),
    /// List admin tokens, without their secret values
    #[command(after_help = "Example:\n  contactd admin-token list --json")]
    List(JsonArg),
    /// Make an admin token independent of the user who created it
    #[command(
        name = "take-over",
        after_help = "A token that a user created through the console or the admin API is refused once the user is disabled or is no \
                      admin any more. To make it your own instead, use the console.\n\nExample:\n  contactd admin-token take-over \
                      nightly-import"
    )]
    TakeOver {
        /// The token's name, or its id from `admin-token list`
        #[arg(value_name = "NAME|ID")]
        token: String,
    },
    /// Revoke an admin token, with immediate effect
    #[command(after_help = "Example:\n  contactd admin-token revoke adm_8sWn2QbX1mZk")]
    Revoke {
        /// The token's name, or its id from `admin-token list`
        #[arg(value_name = "NAME|ID")]
        token: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct AdminTokenArgs {
    /// A name that no other admin token has or had: the program that sends the token
    pub(crate) name: String,
    /// What the token may do
    #[arg(long, value_parser = role())]
    pub(crate) role: Role,
    /// How long the token is valid: a number and s, m, h, d or w, or never
    #[arg(long, value_name = "SPAN", default_value = defaults::TOKEN_LIFETIME)]
    pub(crate) expires: Lifetime,
}

fn role() -> impl TypedValueParser<Value = Role> {
    PossibleValuesParser::new(Role::ALL.map(Role::name)).try_map(|name| name.parse::<Role>())
}
