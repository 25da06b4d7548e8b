//! Who may ask: tokens, their limits, and the accounts of the console.

mod account;
mod actor;
mod bucket;
mod caller;
mod first_bytes;
mod leased_quota;
mod leases;
mod limit;
mod meter;
mod name;
mod scopes;
mod token;
mod token_metrics;
mod token_update;

pub use account::{
    AdminToken, HashError, MOST_PASSWORD_BYTES, NewPassword, PasswordHash, Role, SHORTEST_PASSWORD,
    SecondFactorKey, TotpKeyError, TotpSecret, TotpSeed, UnknownRole, User, UserChange, UserChanged,
    UserName, UserNameError, accepted_step, one_time_password, secret_of, setup_uri, to_base32,
};
pub use actor::{Actor, Via};
pub use bucket::Bucket;
pub use caller::{Caller, Callers, DefaultLimits, HitsBefore, NotACaller, TokenKey, UNCOUNTED, UsageDelta};
pub use leased_quota::{HeldUnits, LeasedQuota, LeasedUnits};
pub use leases::QuotaLeases;
pub use limit::{Allowance, Allowances, LimitExceeded, LimitSyntax, OrNone, Period, Quota, Rate};
pub use name::{MOST_NAME_CHARS, NameError, is_name, looks_like, new_name};
pub use scopes::{Scope, ScopeFault, Scopes};
pub use token::{Token, TokenHash, TokenSecret};
pub use token_metrics::quota_families;
pub use token_update::{TokenUpdate, UpdatedToken};

pub(crate) use caller::{Counts, ReservedHit};
pub(crate) use first_bytes::ByFirstBytes;
pub(crate) use limit::seconds_until;
pub(crate) use meter::Meter;
pub(crate) use name::names_nobody;
